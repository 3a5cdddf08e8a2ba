//! The requests of the name server.

use super::super::names::NameServer;
use super::super::request::{Answer, Handled, Refusal, Request};
use super::super::settings::CLUSTER;
use crate::protocol::body::{BrokerMemberGroup, BrokerMemberGroupBody, KvTable, TopicList};
use crate::protocol::headers::{
    AddWritePermissionAnswer, DeleteTopicInNameServer, GetBrokerMemberGroup, GetRoute, KvConfig,
    KvConfigAnswer, KvNamespace, PutKvConfig, TopicsByCluster, WipeWritePermissionAnswer, WritePermission,
};
use crate::protocol::{RequestCode as Code, ResponseCode};

/// Carries a request out, if it is one for a name server.
pub(crate) fn handle(names: &NameServer, request: &Request) -> Option<Handled> {
    Some(match request.command.request_code() {
        Code::GET_ROUTEINFO_BY_TOPIC => route(names, request),
        Code::GET_BROKER_CLUSTER_INFO => cluster(names),
        Code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => topics(names),
        Code::GET_TOPICS_BY_CLUSTER => topics_of_cluster(names, request),
        Code::PUT_KV_CONFIG => put_setting(names, request),
        Code::GET_KV_CONFIG => setting(names, request),
        Code::DELETE_KV_CONFIG => delete_setting(names, request),
        Code::GET_KVLIST_BY_NAMESPACE => settings(names, request),
        Code::WIPE_WRITE_PERM_OF_BROKER => wipe_write_permission(names, request),
        Code::ADD_WRITE_PERM_OF_BROKER => add_write_permission(names, request),
        Code::DELETE_TOPIC_IN_NAMESRV => delete_topic(names, request),
        Code::GET_BROKER_MEMBER_GROUP => member_group(names, request),
        _ => return None,
    })
}

fn route(names: &NameServer, request: &Request) -> Handled {
    let topic = request.header::<GetRoute>()?.topic;
    match names.route(&topic) {
        Some(route) => Answer::body(route.write()),
        None => {
            let remark = format!("No topic route info in name server for the topic: {topic}");
            Err(Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark))
        }
    }
}

fn cluster(names: &NameServer) -> Handled {
    Answer::body(names.cluster().write())
}

fn topics(names: &NameServer) -> Handled {
    let topic_list = names.topics().into_iter().collect();
    Answer::body(TopicList { topic_list, ..TopicList::default() }.write())
}

fn topics_of_cluster(names: &NameServer, request: &Request) -> Handled {
    match request.header::<TopicsByCluster>()?.cluster == CLUSTER {
        true => topics(names),
        false => Answer::body(TopicList::default().write()),
    }
}

fn put_setting(names: &NameServer, request: &Request) -> Handled {
    let PutKvConfig { namespace, key, value } = request.header()?;
    names.put_setting(namespace, key, value);
    Answer::ok()
}

fn setting(names: &NameServer, request: &Request) -> Handled {
    let KvConfig { namespace, key } = request.header()?;
    match names.setting(&namespace, &key) {
        Some(value) => Answer::header(&KvConfigAnswer { value: Some(value) }),
        None => Err(not_found(format_args!("No config item, Namespace: {namespace} Key: {key}"))),
    }
}

fn delete_setting(names: &NameServer, request: &Request) -> Handled {
    let KvConfig { namespace, key } = request.header()?;
    names.remove_setting(&namespace, &key);
    Answer::ok()
}

fn settings(names: &NameServer, request: &Request) -> Handled {
    let namespace = request.header::<KvNamespace>()?.namespace;
    match names.settings(&namespace) {
        Some(table) => Answer::body(KvTable { table }.write()),
        None => Err(not_found(format_args!("No config item, Namespace: {namespace}"))),
    }
}

fn wipe_write_permission(names: &NameServer, request: &Request) -> Handled {
    let count = set_read_only(names, request, true)?;
    Answer::header(&WipeWritePermissionAnswer { wipe_topic_count: count })
}

fn add_write_permission(names: &NameServer, request: &Request) -> Handled {
    let count = set_read_only(names, request, false)?;
    Answer::header(&AddWritePermissionAnswer { add_topic_count: count })
}

/// 216.
fn delete_topic(names: &NameServer, request: &Request) -> Handled {
    names.forget_topic(&request.header::<DeleteTopicInNameServer>()?.topic);
    Answer::ok()
}

/// 901: the addresses of one broker.
fn member_group(names: &NameServer, request: &Request) -> Handled {
    let GetBrokerMemberGroup { cluster_name, broker_name } = request.header()?;
    let known =
        names.cluster().broker_addr_table.remove(&broker_name).filter(|data| data.cluster == cluster_name);
    let group = BrokerMemberGroup {
        broker_addrs: known.map(|data| data.broker_addrs).unwrap_or_default(),
        broker_name,
        cluster: cluster_name,
    };
    Answer::body(BrokerMemberGroupBody { broker_member_group: Some(group) }.write())
}

fn set_read_only(names: &NameServer, request: &Request, read_only: bool) -> Result<i32, Refusal> {
    let broker = request.header::<WritePermission>()?.broker_name;
    Ok(i32::try_from(names.set_read_only(&broker, read_only)).unwrap_or(i32::MAX))
}

fn not_found(remark: std::fmt::Arguments<'_>) -> Refusal {
    Refusal::new(ResponseCode::QUERY_NOT_FOUND, remark)
}
