//! How producers and consumers come to their client: a shared one, or one of their own.

use crate::error::{Mistake, Result};

use super::{Client, ClientBuilder};

/// What a builder of a producer or consumer was told about its client.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientChoice {
    name_servers: Option<String>,
    client: Option<Client>,
}

impl ClientChoice {
    pub(crate) fn name_servers(&mut self, list: impl Into<String>) {
        self.name_servers = Some(list.into());
    }

    pub(crate) fn client(&mut self, client: &Client) {
        self.client = Some(client.clone());
    }

    /// The mistakes, to be reported with those of the builder.
    pub(crate) fn mistakes(&self) -> Vec<Mistake> {
        match (&self.client, &self.name_servers) {
            (Some(_), Some(_)) => {
                vec![Mistake::new("name_servers", "a client is given as well: set one of them")]
            }
            (Some(_), None) => Vec::new(),
            (None, _) => self.builder().mistakes(),
        }
    }

    /// The shared client, or a new one that ends with its last producer or consumer.
    pub(crate) fn start(self) -> Result<Client> {
        if let Some(client) = self.client {
            return Ok(client);
        }
        let client = self.builder().start()?;
        client.mark_implicit();
        Ok(client)
    }

    fn builder(&self) -> ClientBuilder {
        match &self.name_servers {
            Some(list) => Client::builder().name_servers(list.clone()),
            None => Client::builder(),
        }
    }
}
