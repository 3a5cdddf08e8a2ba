mod end;
mod members;
mod servers;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fake::{Fake, Listener, heartbeats, ok, route, wait_for};
use super::*;
use crate::clock::Clock;
use crate::error::ErrorKind;
use crate::protocol::body::ConsumerData;
use crate::protocol::headers::{GetConsumerRunningInfo, UnregisterClient};
use crate::protocol::{RemotingCommand, RequestCode, ResponseCode};
use crate::remoting::Credentials;

const SOON: Duration = Duration::from_secs(10);

fn builder(fake: &Fake) -> ClientBuilder {
    Client::builder().name_servers(&fake.address)
}

fn changed(topic: &'static str) -> impl Fn(&Notice) -> bool {
    move |notice| matches!(notice, Notice::RouteChanged(changed) if **changed == *topic)
}
