use std::fmt;

/// The account whose key signs every request (brokers with access control).
///
/// `Debug` shows no secrets.
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct Credentials {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) security_token: Option<String>,
}

impl Credentials {
    /// The name of the account and its secret.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self { access_key: access_key.into(), secret_key: secret_key.into(), security_token: None }
    }

    /// Adds the token of a temporary account. Default: none.
    pub fn security_token(mut self, token: impl Into<String>) -> Self {
        self.security_token = Some(token.into());
        self
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .field("secret_key", &"***")
            .field("security_token", &self.security_token.as_ref().map(|_| "***"))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let text = format!("{:?}", Credentials::new("me", "hidden-1").security_token("hidden-2"));
        assert!(text.contains("me") && !text.contains("hidden"), "{text}");
    }
}
