use super::*;

fn no_variables(_: &str) -> Option<String> {
    None
}

fn settings_of(mistakes: &[Mistake]) -> Vec<&'static str> {
    mistakes.iter().map(|mistake| mistake.setting).collect()
}

fn builder() -> ClientBuilder {
    ClientBuilder::new().name_servers("127.0.0.1:9876")
}

#[test]
fn the_defaults_are_those_of_java() {
    let config = builder().check(no_variables).unwrap();
    assert_eq!(*config.name_servers, ["127.0.0.1:9876".into()]);
    assert_eq!(config.route_interval, Duration::from_secs(30));
    assert_eq!(config.heartbeat_interval, Duration::from_secs(30));
    assert_eq!(config.request_timeout, Duration::from_secs(3));
    assert_eq!(config.connect_timeout, Duration::from_secs(3));
    assert_eq!((config.cache_limit, config.max_frame_size), (256 << 20, 16 << 20));
    assert!(!config.in_background && config.credentials.is_none());
}

#[test]
fn all_mistakes_come_at_once() {
    let mistakes = ClientBuilder::new()
        .name_servers("localhost;b:x")
        .credentials(Credentials::new("", ""))
        .namespace("a b")
        .namespace_v2("c")
        .instance_name(" ")
        .connect_timeout(Duration::ZERO)
        .heartbeat_interval(Duration::from_secs(120))
        .cache_limit(0)
        .max_frame_size(1)
        .check(no_variables)
        .err()
        .unwrap();
    let expected = [
        "name_servers",
        "name_servers",
        "credentials",
        "credentials",
        "namespace",
        "namespace",
        "instance_name",
        "connect_timeout",
        "heartbeat_interval",
        "cache_limit",
        "max_frame_size",
    ];
    assert_eq!(settings_of(&mistakes), expected, "{mistakes:?}");
}

#[test]
fn without_any_address_the_variable_to_set_is_named() {
    let mistakes = ClientBuilder::new().check(no_variables).err().unwrap();
    assert!(mistakes[0].problem.contains("NAMESRV_ADDR"), "{mistakes:?}");
    let mistakes = ClientBuilder::new().environment("SHOP").check(no_variables).err().unwrap();
    assert!(mistakes[0].problem.contains("SHOP_NAMESRV"), "{mistakes:?}");
    let mistakes = builder().name_servers(" ; ").check(no_variables).err().unwrap();
    assert_eq!(settings_of(&mistakes), ["name_servers"]);
}

#[test]
fn the_environment_completes_and_setters_win() {
    let variable = |name: &str| {
        let value = match name {
            "SHOP_NAMESRV" => "10.0.0.1:9876",
            "SHOP_ACCESS_KEY" => "me",
            "SHOP_SECRET_KEY" => "hidden",
            "SHOP_SECURITY_TOKEN" => "token",
            "SHOP_NAMESPACE" => "ns",
            "NAMESRV_ADDR" => "10.0.0.9:9876",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let config = ClientBuilder::new().environment("SHOP").check(variable).unwrap();
    assert_eq!(*config.name_servers, ["10.0.0.1:9876".into()]);
    assert_eq!(config.credentials, Some(Credentials::new("me", "hidden").security_token("token")));
    assert_eq!(config.namespace.as_deref(), Some("ns"));

    let set = builder().environment("SHOP").credentials(Credentials::new("a", "b")).namespace_v2("two");
    let config = set.check(variable).unwrap();
    assert_eq!(*config.name_servers, ["127.0.0.1:9876".into()]);
    assert_eq!(config.credentials, Some(Credentials::new("a", "b")));
    assert_eq!((config.namespace, config.namespace_v2.as_deref()), (None, Some("two")));

    let config = ClientBuilder::new().check(variable).unwrap();
    assert_eq!(*config.name_servers, ["10.0.0.9:9876".into()]);
    assert!(config.credentials.is_none());
}

#[test]
fn a4_half_of_a_key_pair_and_empty_keys_are_mistakes() {
    for (access, secret, wrong) in [("me", "", 1), ("", "secret", 1), ("", "", 2), ("me", "secret", 0)] {
        let mistakes = builder().credentials(Credentials::new(access, secret)).check(no_variables).err();
        let mistakes = mistakes.unwrap_or_default();
        let named = |name: &str| mistakes.iter().filter(|mistake| mistake.setting == name).count();
        assert_eq!((named("credentials"), mistakes.len()), (wrong, wrong), "{mistakes:?}");
    }
    let half = |name: &str| (name == "P_ACCESS_KEY").then(|| "me".to_owned());
    assert_eq!(settings_of(&builder().environment("P").check(half).err().unwrap()), ["environment"]);
}

fn tls_ca(name: &str) -> Option<String> {
    (name == "P_TLS_CA").then(|| "/etc/ca.pem".to_owned())
}

#[cfg(not(feature = "tls"))]
#[test]
fn an_authority_in_the_environment_is_a_mistake_without_tls() {
    assert_eq!(settings_of(&builder().environment("P").check(tls_ca).err().unwrap()), ["environment"]);
}

#[cfg(feature = "tls")]
#[test]
fn an_authority_in_the_environment_switches_tls_on_unless_it_is_set() {
    let shown = |builder: ClientBuilder| format!("{:?}", builder.environment("P").check(tls_ca).unwrap().tls);
    assert!(shown(builder()).contains("/etc/ca.pem"));
    assert!(shown(builder().tls(Tls::ca_file("other.pem"))).contains("other.pem"));
    assert!(builder().check(tls_ca).unwrap().tls.is_none());
    let unnamed = builder().tls(Tls::insecure().server_name("a b")).check(no_variables);
    assert_eq!(settings_of(&unnamed.err().unwrap()), ["tls"]);
}

#[test]
fn a_builder_can_be_printed_without_its_secrets() {
    let text = format!("{:?}", builder().credentials(Credentials::new("me", "hidden")));
    assert!(text.contains("127.0.0.1:9876") && !text.contains("hidden"), "{text}");
}
