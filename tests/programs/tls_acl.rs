use rocketmq_sync::{Client, Credentials, ErrorKind, Message, Producer, Result, Tls};
fn main() -> Result<()> {
    let client = Client::builder()
        .name_servers(servers())
        .tls(Tls::ca_file("ca.pem").client_certificate("me.pem", "me.key"))
        .credentials(
            Credentials::new("shop", std::env::var("MQ_SECRET").unwrap_or_default()).security_token("t"),
        )
        .address_map(|advertised| advertised.replace("10.255.255.1", &host()))
        .start()
        .inspect_err(|e| {
            for m in e.mistakes() {
                eprintln!("{}: {}", m.setting, m.problem)
            }
        })?;
    println!("{client:?}"); // no secret in it
    let producer = Producer::builder("shop").client(&client).start()?;
    match producer.send(&Message::new("orders", "x")) {
        Err(e) if e.kind() == ErrorKind::Refused => eprintln!("wrong key or no right to send: {e}"),
        other => drop(other?),
    }
    Ok(())
}
// The name in front of the port.
fn host() -> String {
    servers().rsplit_once(':').map_or_else(servers, |(host, _)| host.to_owned())
}
fn servers() -> String {
    std::env::var("NAMESRV_ADDR").unwrap_or_else(|_| "mq.example.com:9876".to_owned())
}
