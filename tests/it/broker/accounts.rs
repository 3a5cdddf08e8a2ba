//! Who may do what, once there are accounts.

use super::{code, connect};
use crate::wire::pull;
use rocketmq_sync::broker::{Broker, Permission, Rights, Version};
use rocketmq_sync::testing::protocol::headers::Topic;
use rocketmq_sync::testing::protocol::{Fields, RemotingCommand};
use rocketmq_sync::{Credentials, RequestCode, ResponseCode};

#[test]
fn accounts_are_asked_for_a_signature_and_a_right() {
    for (version, refused) in
        [(Version::V4_9, ResponseCode::SYSTEM_ERROR), (Version::V5_3, ResponseCode::NO_PERMISSION)]
    {
        let broker = Broker::builder()
            .topic("t", 1)
            .version(version)
            .account(Credentials::new("root", "secret"), Rights::all())
            .account(
                Credentials::new("cap-access", "cap-secret-1234"),
                Rights::none().group("g", Permission::Read),
            )
            .start()
            .unwrap();
        let mut wire = connect(&broker);
        let topic = Topic { topic: "t".into() };
        assert_eq!(code(&wire.ask(RequestCode::GET_ROUTEINFO_BY_TOPIC, &topic)), ResponseCode::SUCCESS);
        assert_eq!(code(&wire.ask(RequestCode::PULL_MESSAGE, &pull("g", "t", 0, 0))), refused);
        // A recorded request of a Java client with its signature.
        let fields = [
            ("queueId", "2"),
            ("bname", "broker-a"),
            ("topic", "cap-orders"),
            ("consumerGroup", "cap-trace-group"),
            ("AccessKey", "cap-access"),
            ("Signature", "Dxh7OC7zFCg87qmHfMMYl1wujVc="),
        ];
        let mut request = RemotingCommand::request(RequestCode::QUERY_CONSUMER_OFFSET);
        request.fields = Fields::from_iter(fields);
        let answer = wire.call(request.clone());
        assert!(code(&answer) == refused && answer.remark.unwrap().contains("no right"));
        request.fields.set("queueId", "3");
        let answer = wire.call(request);
        assert!(code(&answer) == refused && answer.remark.unwrap().contains("signature"));
        let broker = Broker::builder()
            .version(version)
            .account(Credentials::new("cap-access", "cap-secret-1234"), Rights::all())
            .start()
            .unwrap();
        let mut request = RemotingCommand::request(RequestCode::QUERY_CONSUMER_OFFSET);
        request.fields = Fields::from_iter(fields);
        assert_ne!(code(&connect(&broker).call(request)), refused);
    }
}
