//! The embedded broker as a target.

use super::Target;
use rocketmq_sync::broker::{Broker, Clock};
use rocketmq_sync::testing::protocol::Encoding;
use rocketmq_sync::{Client, ClientBuilder};
use std::ops::Deref;
use std::time::Duration;

#[derive(Debug)]
pub struct Embedded(Broker, Encoding);

impl Embedded {
    /// Its clock stands still, but for the delays that a scenario lets pass.
    pub fn start() -> Self {
        Self::on("127.0.0.1:0")
    }

    /// The same on another address of this machine.
    pub fn on(address: &str) -> Self {
        Embedded(
            Broker::builder().listen(address).clock(Clock::manual()).start().expect("a port is free"),
            Encoding::Json,
        )
    }

    /// The same, with clients that write headers in this form.
    pub fn told_in(encoding: Encoding) -> Self {
        Embedded(Self::start().0, encoding)
    }

    /// A broker in a machine room.
    pub fn named(name: &str) -> Self {
        Embedded(
            Broker::builder().name(name).clock(Clock::manual()).start().expect("a port is free"),
            Encoding::Json,
        )
    }

    /// It speaks TLS only, and wants certificates of its clients.
    #[cfg(feature = "tls")]
    pub fn encrypted(authority: &super::certificates::Authority, topic: &str) -> Self {
        let broker = Broker::builder()
            .topic(topic, 4)
            .tls_files(authority.path("server.pem"), authority.path("server.key"))
            .tls_client_ca(authority.ca());
        Embedded(broker.start().expect("a port is free"), Encoding::Json)
    }

    /// As the scenario of that name wants it.
    #[cfg(all(feature = "acl", feature = "tls"))]
    pub fn guarded(authority: &super::certificates::Authority) -> Self {
        use super::guarded::{ADMIN, READER};
        use rocketmq_sync::Credentials;
        use rocketmq_sync::broker::{Permission, Rights};

        let rights =
            Rights::none().topic("guarded", Permission::ReadWrite).group("guarded-group", Permission::Read);
        let broker = Broker::builder()
            .account(Credentials::new(ADMIN.0, ADMIN.1), Rights::all())
            .account(Credentials::new(READER.0, READER.1), rights)
            .tls_files(authority.path("server.pem"), authority.path("server.key"))
            .tls_client_ca(authority.ca());
        Embedded(broker.start().expect("a port is free"), Encoding::Json)
    }
}

impl Deref for Embedded {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        &self.0
    }
}

impl Target for Embedded {
    fn name_server(&self) -> String {
        self.0.name_server()
    }

    fn broker(&self) -> String {
        self.0.name_server()
    }

    fn client(&self) -> ClientBuilder {
        Client::builder().encoding(self.1)
    }

    fn pass_until(&self, limit: Duration, what: &str, done: &dyn Fn() -> bool) {
        self.0.fast_forward(limit, |_| done()).unwrap_or_else(|error| panic!("waiting for {what}: {error}"));
    }

    fn kill_broker(&self) {
        self.0.kill();
    }

    fn start_broker(&self) {
        self.0.start().expect("its port is still free");
    }

    fn restart_broker(&self) {
        self.0.restart().expect("its port is still free");
    }
}
