//! Brokers that are somewhere else from some time on. Members hear of it with a route.

use std::sync::Arc;

use super::core::{BROKERS, SimCore, Sink, address};
use super::member::ForControl;
use super::mutants::Mutant;
use super::net::{PULL_TIMEOUT, REQUEST_TIMEOUT};
use super::world::{Happening, World};
use crate::client::Notice;
use crate::consumer::rebalance_loop::RebalanceEvent;
use crate::message::MessageQueue;

impl World {
    /// A broker begins anew at another address. Whoever is connected to the former one may not notice: nothing ends the
    /// connections, and what is asked on them is answered by nobody.
    pub(super) fn move_broker(&mut self, broker: usize) {
        let (is_noticed, crashed) = (self.rng.chance(400), self.rng.chance(500));
        self.brokers[broker].port += 1;
        let port = self.brokers[broker].port;
        self.note(|| format!("{} moves to port {port}, connections end: {is_noticed}", BROKERS[broker].0));
        if is_noticed {
            return self.restart(broker, crashed);
        }
        self.begin_anew(broker, crashed);
        let of_broker = self.calls.iter().filter(|(_, call)| call.broker == broker && call.awaited);
        let unanswered: Vec<_> = of_broker.map(|(id, call)| (*id, call.sink, call.sent)).collect();
        for (id, sink, sent) in unanswered {
            let timeout = if sink == Sink::Pulls { PULL_TIMEOUT } else { REQUEST_TIMEOUT };
            self.at((sent + timeout).max(self.now), Happening::Expire(id));
        }
    }

    /// Where name servers say that the brokers are. One that has moved says so when it is up.
    pub(super) fn registered_ports(&mut self) -> Vec<usize> {
        let now = self.now;
        for broker in &mut self.brokers {
            if now >= broker.down_until {
                broker.registered = broker.port;
            }
        }
        self.brokers.iter().map(|broker| broker.registered).collect()
    }

    /// A route has come. As the client does, those who have moved are left behind.
    pub(super) fn leave_former_addresses(&mut self, number: usize, queues: &[MessageQueue], ports: &[usize]) {
        for (broker, port) in ports.iter().enumerate() {
            let (name, _) = BROKERS[broker];
            let Some(member) = &mut self.members[number] else { return };
            let from = member.core.port(broker);
            if from == *port || !queues.iter().any(|queue| queue.broker_name() == name) {
                continue;
            }
            member.core.seen.borrow_mut().ports[broker] = *port;
            self.note(|| format!("{number} hears that {name} is at {} now", address(broker, *port)));
            self.notice(number, Notice::BrokerMoved { name: name.into() });
            self.close_link(number, broker);
        }
    }

    /// The connection to a former address, if there still is one.
    fn close_link(&mut self, number: usize, broker: usize) {
        let now = self.now;
        let Some(member) = &mut self.members[number] else { return };
        let link = &mut member.links[broker];
        if !std::mem::replace(&mut link.up, false) {
            return;
        }
        link.down_until = now;
        let former = address(broker, link.port);
        member.acknowledged[broker] = None;
        member.core.told.connection_ended(&former);
        self.for_control(number, ForControl::Down(former));
        self.lose_calls(number, broker);
    }

    /// The rebalance loop is about to hear that a broker has moved. Whether it does not.
    pub(super) fn look_for_move(&mut self, number: usize, event: &RebalanceEvent<SimCore>) -> bool {
        let RebalanceEvent::Notice(_, Notice::BrokerMoved { name }) = event else { return false };
        let name: Arc<str> = name.clone();
        self.confirmations_are_doubtful(number, &name);
        self.is(Mutant::MoveNotNoticed)
    }
}
