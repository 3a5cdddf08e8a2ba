//! Heartbeats: what they say, to whom, and what follows from the answers. And probes of silent connections.

use std::sync::Arc;
use std::time::Instant;

use crate::protocol::body::{ConsumerData, HeartbeatData, ProducerData};
use crate::protocol::{Frame, RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::CallError;

use super::super::heartbeat::{Beaten, Content};
use super::super::member::{MemberKind, Notice};
use super::super::routes::MASTER;
use super::routes::route_request;
use super::{Control, Question};

impl Control {
    /// Consumers are known to every broker, slaves included, since they may read from those; producers to masters.
    pub(super) fn choose_brokers_to_tell(&mut self, now: Instant) {
        let members = self.instance.members();
        let consumers = members.iter().any(|member| member.kind() == MemberKind::Consumer);
        let brokers = if members.is_empty() { Vec::new() } else { self.instance.brokers() };
        let told = brokers.into_iter().filter(|(_, id, _)| consumers || *id == MASTER);
        self.beats.set_brokers(told.map(|(_, _, address)| address), now);
    }

    pub(super) fn send_due_heartbeats(&mut self, now: Instant) {
        let addresses = self.beats.take_due(now);
        if addresses.is_empty() {
            return;
        }
        let (content, body) = self.heartbeat();
        for address in addresses {
            let connection = self.instance.told.connection(&address);
            let question =
                Question::Heartbeat { address: address.clone(), connection, content: content.clone() };
            let command = RemotingCommand::request(RequestCode::HEART_BEAT).body(body.clone());
            self.ask(&address, command, self.instance.config.request_timeout, question);
        }
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        address: &Arc<str>,
        connection: u64,
        content: &Arc<Content>,
        outcome: Result<Frame, CallError>,
        now: Instant,
    ) {
        let answer = match outcome {
            Ok(frame) => frame.command_without_body().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match answer {
            Ok(answer) if answer.response_code() == ResponseCode::SUCCESS => {
                self.instance.versions.lock().insert(address.clone(), answer.version);
                self.acknowledged(address, connection, content, now);
            }
            Ok(answer) => {
                let (code, remark) = (answer.response_code(), answer.remark.unwrap_or_default());
                log::warn!("broker {address} refuses the heartbeat: {code} {remark}");
                self.beats.answered(address, Beaten::Refused, now);
                let (address, remark) = (address.clone(), remark.into());
                self.tell_all(&Notice::HeartbeatRefused { address, code, remark });
            }
            Err(error) => {
                log::debug!("no heartbeat to {address}: {error}");
                self.beats.answered(address, Beaten::Failed, now);
                // Who connects and does not answer may have moved, as well as who cannot be connected to.
                self.trouble_at(address, now);
            }
        }
        self.goodbyes_after_heartbeat(address, now);
    }

    fn acknowledged(&mut self, address: &Arc<str>, connection: u64, content: &Arc<Content>, now: Instant) {
        match self.instance.told.acknowledged(address, connection, content) {
            // The connection is gone, and the broker has forgotten us with it.
            None => self.beats.answered(address, Beaten::Failed, now),
            Some(news) => {
                self.beats.answered(address, Beaten::Acknowledged, now);
                if news {
                    self.watch.brokers_told(now);
                }
                self.tell_all(&Notice::Heartbeaten { address: address.clone() });
            }
        }
    }

    /// What is true now, as a note for later and as the wire has it.
    fn heartbeat(&self) -> (Arc<Content>, Vec<u8>) {
        let mut data = HeartbeatData { client_id: self.instance.id.clone(), ..HeartbeatData::default() };
        let mut content = Content::default();
        for member in self.instance.members() {
            match member.consumer_data() {
                Some(consumer) => {
                    content.consumers.insert(consumer.group_name.clone(), versions(&consumer));
                    data.consumer_data_set.push(consumer);
                }
                // It reads queues without being a member of its group.
                None if member.kind() == MemberKind::Consumer => {}
                None => {
                    content.producers.insert(member.group().to_owned());
                    data.producer_data_set.push(ProducerData { group_name: member.group().to_owned() });
                }
            }
        }
        (Arc::new(content), data.write())
    }

    pub(super) fn look_for_silence(&mut self, now: Instant) {
        let real = Instant::now();
        let suspects = self.instance.remoting.suspects(real);
        self.suspects_at = now + suspects.look_again.saturating_duration_since(real);
        for (address, timeout) in suspects.probe {
            log::debug!("{address} has been silent for a while; asking whether it is there");
            if self.beats.is_out(&address) {
                continue; // That one is as good as a probe.
            }
            let command = if self.instance.name_servers.contains(&address) {
                route_request(PROBE_TOPIC)
            } else {
                // Names no group, so it changes nothing.
                let data = HeartbeatData { client_id: self.instance.id.clone(), ..HeartbeatData::default() };
                RemotingCommand::request(RequestCode::HEART_BEAT).body(data.write())
            };
            self.ask(&address, command, timeout, Question::Probe);
        }
    }
}

fn versions(consumer: &ConsumerData) -> std::collections::BTreeMap<String, i64> {
    let subscriptions = consumer.subscription_data_set.iter();
    subscriptions.map(|subscription| (subscription.topic.clone(), subscription.sub_version)).collect()
}

/// Every cluster that creates topics by itself has it; the others say that it does not exist, which is an answer too.
pub(crate) const PROBE_TOPIC: &str = "TBW102";
