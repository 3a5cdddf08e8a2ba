//! The numbers of requests and answers. They are open: a number without a name is carried as it is.

use std::fmt;

macro_rules! codes {
    ($(#[$meta:meta])* $type:ident { $($name:ident = $number:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub i32);

        impl $type {
            $(
                #[doc = concat!("Code ", stringify!($number), ".")]
                pub const $name: Self = Self($number);
            )*

            /// The name, for codes that have one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }

        /// The name, or the number where there is none.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => fmt::Display::fmt(&self.0, f),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{name}({})", self.0),
                    None => write!(f, concat!(stringify!($type), "({})"), self.0),
                }
            }
        }
    };
}

codes! {
    /// What a request asks for. Numbers without a name here are carried as they are.
    RequestCode {
        // Messages and consumers.
        SEND_MESSAGE = 10,
        PULL_MESSAGE = 11,
        QUERY_MESSAGE = 12,
        QUERY_BROKER_OFFSET = 13,
        QUERY_CONSUMER_OFFSET = 14,
        UPDATE_CONSUMER_OFFSET = 15,
        SEARCH_OFFSET_BY_TIMESTAMP = 29,
        GET_MAX_OFFSET = 30,
        GET_MIN_OFFSET = 31,
        GET_EARLIEST_MSG_STORETIME = 32,
        VIEW_MESSAGE_BY_ID = 33,
        HEART_BEAT = 34,
        UNREGISTER_CLIENT = 35,
        CONSUMER_SEND_MSG_BACK = 36,
        END_TRANSACTION = 37,
        GET_CONSUMER_LIST_BY_GROUP = 38,
        CHECK_TRANSACTION_STATE = 39,
        NOTIFY_CONSUMER_IDS_CHANGED = 40,
        LOCK_BATCH_MQ = 41,
        UNLOCK_BATCH_MQ = 42,
        CHECK_CLIENT_CONFIG = 46,
        GET_CLIENT_CONFIG = 47,
        RESET_CONSUMER_CLIENT_OFFSET = 220,
        GET_CONSUMER_STATUS_FROM_CLIENT = 221,
        GET_CONSUMER_RUNNING_INFO = 307,
        CONSUME_MESSAGE_DIRECTLY = 309,
        SEND_MESSAGE_V2 = 310,
        SEND_BATCH_MESSAGE = 320,
        SEND_REPLY_MESSAGE = 324,
        SEND_REPLY_MESSAGE_V2 = 325,
        PUSH_REPLY_MESSAGE_TO_CLIENT = 326,
        LITE_PULL_MESSAGE = 361,
        RECALL_MESSAGE = 370,
        QUERY_ASSIGNMENT = 400,
        SET_MESSAGE_REQUEST_MODE = 401,
        GET_ALL_MESSAGE_REQUEST_MODE = 402,
        POP_MESSAGE = 200050,
        ACK_MESSAGE = 200051,
        PEEK_MESSAGE = 200052,
        CHANGE_MESSAGE_INVISIBLETIME = 200053,
        NOTIFICATION = 200054,
        POLLING_INFO = 200055,
        POP_ROLLBACK = 200056,
        BATCH_ACK_MESSAGE = 200151,
        POP_LITE_MESSAGE = 200070,
        LITE_SUBSCRIPTION_CTL = 200071,
        ACK_LITE_MESSAGE = 200072,
        NOTIFY_UNSUBSCRIBE_LITE = 200073,
        // Name server.
        PUT_KV_CONFIG = 100,
        GET_KV_CONFIG = 101,
        DELETE_KV_CONFIG = 102,
        REGISTER_BROKER = 103,
        UNREGISTER_BROKER = 104,
        GET_ROUTEINFO_BY_TOPIC = 105,
        GET_BROKER_CLUSTER_INFO = 106,
        WIPE_WRITE_PERM_OF_BROKER = 205,
        ADD_WRITE_PERM_OF_BROKER = 327,
        GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206,
        DELETE_TOPIC_IN_NAMESRV = 216,
        REGISTER_TOPIC_IN_NAMESRV = 217,
        GET_KVLIST_BY_NAMESPACE = 219,
        GET_TOPICS_BY_CLUSTER = 224,
        GET_SYSTEM_TOPIC_LIST_FROM_NS = 304,
        GET_UNIT_TOPIC_LIST = 311,
        GET_HAS_UNIT_SUB_TOPIC_LIST = 312,
        GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313,
        UPDATE_NAMESRV_CONFIG = 318,
        GET_NAMESRV_CONFIG = 319,
        QUERY_DATA_VERSION = 322,
        GET_BROKER_MEMBER_GROUP = 901,
        BROKER_HEARTBEAT = 904,
        NOTIFY_MIN_BROKER_ID_CHANGE = 905,
        // Administration of a broker.
        UPDATE_AND_CREATE_TOPIC = 17,
        UPDATE_AND_CREATE_TOPIC_LIST = 18,
        GET_ALL_TOPIC_CONFIG = 21,
        UPDATE_BROKER_CONFIG = 25,
        GET_BROKER_CONFIG = 26,
        TRIGGER_DELETE_FILES = 27,
        GET_BROKER_RUNTIME_INFO = 28,
        GET_ALL_CONSUMER_OFFSET = 43,
        GET_ALL_DELAY_OFFSET = 45,
        GET_TIMER_CHECK_POINT = 60,
        GET_TIMER_METRICS = 61,
        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200,
        GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201,
        GET_TOPIC_STATS_INFO = 202,
        GET_CONSUMER_CONNECTION_LIST = 203,
        GET_PRODUCER_CONNECTION_LIST = 204,
        DELETE_SUBSCRIPTIONGROUP = 207,
        GET_CONSUME_STATS = 208,
        DELETE_TOPIC_IN_BROKER = 215,
        INVOKE_BROKER_TO_RESET_OFFSET = 222,
        INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223,
        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225,
        QUERY_TOPIC_CONSUME_BY_WHO = 300,
        REGISTER_FILTER_SERVER = 301,
        REGISTER_MESSAGE_FILTER_CLASS = 302,
        QUERY_CONSUME_TIME_SPAN = 303,
        GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305,
        CLEAN_EXPIRED_CONSUMEQUEUE = 306,
        QUERY_CORRECTION_OFFSET = 308,
        CLONE_GROUP_OFFSET = 314,
        VIEW_BROKER_STATS_DATA = 315,
        CLEAN_UNUSED_TOPIC = 316,
        GET_BROKER_CONSUME_STATS = 317,
        QUERY_CONSUME_QUEUE = 321,
        RESUME_CHECK_HALF_MESSAGE = 323,
        GET_ALL_PRODUCER_INFO = 328,
        DELETE_EXPIRED_COMMITLOG = 329,
        QUERY_TOPICS_BY_CONSUMER = 343,
        QUERY_SUBSCRIPTION_BY_CONSUMER = 345,
        GET_TOPIC_CONFIG = 351,
        GET_SUBSCRIPTIONGROUP_CONFIG = 352,
        UPDATE_AND_GET_GROUP_FORBIDDEN = 353,
        CHECK_ROCKSDB_CQ_WRITE_PROGRESS = 354,
        EXPORT_ROCKSDB_CONFIG_TO_JSON = 355,
        UPDATE_AND_CREATE_STATIC_TOPIC = 513,
        // Of no use to clients, or obsolete; named for logs.
        UPDATE_AND_CREATE_ACL_CONFIG = 50,
        DELETE_ACL_CONFIG = 51,
        GET_BROKER_CLUSTER_ACL_INFO = 52,
        UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53,
        GET_BROKER_CLUSTER_ACL_CONFIG = 54,
        ADD_BROKER = 902,
        REMOVE_BROKER = 903,
        EXCHANGE_BROKER_HA_INFO = 906,
        GET_BROKER_HA_STATUS = 907,
        RESET_MASTER_FLUSH_OFFSET = 908,
        SWITCH_TIMER_ENGINE = 5001,
        GET_BROKER_LITE_INFO = 200074,
        GET_PARENT_TOPIC_INFO = 200075,
        GET_LITE_TOPIC_INFO = 200076,
        GET_LITE_CLIENT_INFO = 200077,
        GET_LITE_GROUP_INFO = 200078,
        TRIGGER_LITE_DISPATCH = 200079,
    }
}

codes! {
    /// What a server answered. Numbers without a name here are carried as they are.
    ///
    /// 209 to 211 are the names of brokers 5.x; 4.x used them for failures of its access control.
    ResponseCode {
        SUCCESS = 0,
        SYSTEM_ERROR = 1,
        SYSTEM_BUSY = 2,
        REQUEST_CODE_NOT_SUPPORTED = 3,
        TRANSACTION_FAILED = 4,
        FLUSH_DISK_TIMEOUT = 10,
        SLAVE_NOT_AVAILABLE = 11,
        FLUSH_SLAVE_TIMEOUT = 12,
        MESSAGE_ILLEGAL = 13,
        SERVICE_NOT_AVAILABLE = 14,
        VERSION_NOT_SUPPORTED = 15,
        NO_PERMISSION = 16,
        TOPIC_NOT_EXIST = 17,
        TOPIC_EXIST_ALREADY = 18,
        PULL_NOT_FOUND = 19,
        PULL_RETRY_IMMEDIATELY = 20,
        PULL_OFFSET_MOVED = 21,
        QUERY_NOT_FOUND = 22,
        SUBSCRIPTION_PARSE_FAILED = 23,
        SUBSCRIPTION_NOT_EXIST = 24,
        SUBSCRIPTION_NOT_LATEST = 25,
        SUBSCRIPTION_GROUP_NOT_EXIST = 26,
        FILTER_DATA_NOT_EXIST = 27,
        FILTER_DATA_NOT_LATEST = 28,
        INVALID_PARAMETER = 29,
        TRANSACTION_SHOULD_COMMIT = 200,
        TRANSACTION_SHOULD_ROLLBACK = 201,
        TRANSACTION_STATE_UNKNOW = 202,
        TRANSACTION_STATE_GROUP_WRONG = 203,
        NO_BUYER_ID = 204,
        NOT_IN_CURRENT_UNIT = 205,
        CONSUMER_NOT_ONLINE = 206,
        CONSUME_MSG_TIMEOUT = 207,
        NO_MESSAGE = 208,
        POLLING_FULL = 209,
        POLLING_TIMEOUT = 210,
        BROKER_NOT_EXIST = 211,
        BROKER_DISPATCH_NOT_COMPLETE = 212,
        BROADCAST_CONSUMPTION = 213,
        FLOW_CONTROL = 215,
        NOT_LEADER_FOR_QUEUE = 501,
        ILLEGAL_OPERATION = 604,
        RPC_UNKNOWN = -1000,
        RPC_ADDR_IS_NULL = -1002,
        RPC_SEND_TO_CHANNEL_FAILED = -1004,
        RPC_TIME_OUT = -1006,
        GO_AWAY = 1500,
        LMQ_QUOTA_EXCEEDED = 2017,
        LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 2018,
        USER_NOT_EXIST = 3001,
        POLICY_NOT_EXIST = 3002,
    }
}

impl ResponseCode {
    /// Whether the same request may succeed later: the server is overloaded, starting, stopping, or has not yet heard
    /// of something that it is about to hear of.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::SYSTEM_ERROR
                | Self::SYSTEM_BUSY
                | Self::SERVICE_NOT_AVAILABLE
                | Self::PULL_RETRY_IMMEDIATELY
                | Self::SUBSCRIPTION_NOT_EXIST
                | Self::SUBSCRIPTION_NOT_LATEST
                | Self::FILTER_DATA_NOT_EXIST
                | Self::FILTER_DATA_NOT_LATEST
                | Self::CONSUMER_NOT_ONLINE
                | Self::CONSUME_MSG_TIMEOUT
                | Self::POLLING_FULL
                | Self::POLLING_TIMEOUT
                | Self::BROKER_DISPATCH_NOT_COMPLETE
                | Self::FLOW_CONTROL
                | Self::NOT_LEADER_FOR_QUEUE
                | Self::GO_AWAY
                | Self::RPC_SEND_TO_CHANNEL_FAILED
                | Self::RPC_TIME_OUT
        )
    }

    /// Whether another broker may take a message that this one refused. Java: `retryResponseCodes` of the producer.
    pub fn is_retryable_elsewhere(self) -> bool {
        matches!(
            self,
            Self::TOPIC_NOT_EXIST
                | Self::SERVICE_NOT_AVAILABLE
                | Self::SYSTEM_ERROR
                | Self::SYSTEM_BUSY
                | Self::NO_PERMISSION
                | Self::NO_BUYER_ID
                | Self::NOT_IN_CURRENT_UNIT
                | Self::GO_AWAY
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_or_numbers() {
        assert_eq!(RequestCode::PULL_MESSAGE.to_string(), "PULL_MESSAGE");
        assert_eq!(format!("{:?}", RequestCode(11)), "PULL_MESSAGE(11)");
        assert_eq!(format!("{:?}", ResponseCode(4711)), "ResponseCode(4711)");
        assert_eq!(ResponseCode(-1).to_string(), "-1");
        assert_eq!(format!("[{:>8}]", ResponseCode::SUCCESS), "[ SUCCESS]");
    }
}
