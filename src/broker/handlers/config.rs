//! The settings of a broker, as tools read and change them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::settings::CLUSTER;
use super::super::state::State;
use crate::protocol::headers::BrokerConfigAnswer;
use crate::protocol::{RemotingCommand, ResponseCode};

const CREATE_TOPICS: &str = "autoCreateTopicEnable";
const CREATE_GROUPS: &str = "autoCreateSubscriptionGroup";
const PROPERTY_FILTER: &str = "enablePropertyFilter";
/// Settings that follow from how the broker was built.
const FIXED: [&str; 5] = ["brokerName", "brokerClusterName", "brokerIP1", "listenPort", "brokerId"];

/// 25: lines of `name=value`. What the embedded broker has no use for is kept and shown, as by a real one.
pub(crate) fn update(state: &mut State, request: &Request) -> Handled {
    let text = String::from_utf8_lossy(&request.command.body);
    let wanted: Vec<(String, String)> = text.lines().filter_map(setting).collect();
    for (name, value) in &wanted {
        if FIXED.contains(&name.as_str()) {
            return Err(Refusal::error(format_args!("{name} cannot be changed while the broker runs")));
        }
        let switch = [CREATE_TOPICS, CREATE_GROUPS, PROPERTY_FILTER].contains(&name.as_str());
        if switch && !["true", "false"].contains(&value.as_str()) {
            return Err(Refusal::error(format_args!("{name} is true or false, not {value}")));
        }
    }
    for (name, value) in wanted {
        match name.as_str() {
            CREATE_TOPICS => state.set_auto_create_topics(value == "true"),
            CREATE_GROUPS => state.settings.auto_create_groups = value == "true",
            PROPERTY_FILTER => state.settings.property_filter = value == "true",
            _ => drop(state.config.insert(name, value)),
        }
    }
    Answer::ok()
}

/// 26.
pub(crate) fn all(state: &State) -> Handled {
    let mut table: BTreeMap<&str, String> =
        state.config.iter().map(|(name, value)| (&**name, value.clone())).collect();
    let levels = state.settings.delay_levels.iter().map(|delay| in_units(*delay));
    table.extend([
        ("brokerName", state.settings.name.clone()),
        ("brokerClusterName", CLUSTER.to_owned()),
        ("brokerId", state.settings.id.to_string()),
        ("brokerIP1", state.host.ip().to_string()),
        ("listenPort", state.host.port().to_string()),
        (CREATE_TOPICS, state.settings.auto_create_topics.to_string()),
        (CREATE_GROUPS, state.settings.auto_create_groups.to_string()),
        (PROPERTY_FILTER, state.settings.property_filter.to_string()),
        ("messageDelayLevel", levels.collect::<Vec<_>>().join(" ")),
    ]);
    let text: String = table.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    let version = String::from_utf8(state.data_version().write()).ok();
    let answer =
        RemotingCommand::response(ResponseCode::SUCCESS, 0).header_fields(&BrokerConfigAnswer { version });
    Ok(Answer::Now(answer.body(text.into_bytes())))
}

/// A delay as brokers write it: `30s`, `2h`.
fn in_units(delay: Duration) -> String {
    let millis = delay.as_millis();
    let unit = [("h", 3_600_000), ("m", 60_000), ("s", 1000)]
        .into_iter()
        .find(|(_, size)| millis.is_multiple_of(*size));
    unit.map_or_else(|| format!("{millis}ms"), |(unit, size)| format!("{}{unit}", millis / size))
}

/// One line of a Java properties file; comments and empty lines are none.
fn setting(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let (name, value) = line.split_once(['=', ':']).filter(|_| !line.starts_with(['#', '!']))?;
    Some((name.trim_end().to_owned(), value.trim_start().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_written_with_their_units() {
        let written =
            [1, 30_000, 60_000, 90_000, 7_200_000].map(|millis| in_units(Duration::from_millis(millis)));
        assert_eq!(written, ["1ms", "30s", "1m", "90s", "2h"]);
    }

    #[test]
    fn lines_of_a_properties_file() {
        let parsed = |line| setting(line).map(|(name, value)| format!("{name}|{value}"));
        assert_eq!(parsed("a = b=c ").as_deref(), Some("a|b=c "));
        assert_eq!(parsed("  a:1").as_deref(), Some("a|1"));
        assert_eq!([parsed("#a=b"), parsed(""), parsed("nothing")], [None, None, None]);
    }
}
