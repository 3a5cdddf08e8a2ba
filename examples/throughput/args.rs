//! `command --name value …`.

use std::str::FromStr;

pub struct Args {
    command: String,
    pairs: Vec<(String, String)>,
}

impl Args {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let command = words.next().ok_or("no command")?;
        let mut pairs = Vec::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or(format!("{word:?} is not an option"))?.to_owned();
            let value = words.next().ok_or(format!("--{name} has no value"))?;
            pairs.push((name, value));
        }
        Ok(Self { command, pairs })
    }

    pub fn command(&self) -> &str {
        &self.command
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text<'a>(&'a self, name: &'a str) -> Result<&'a str, String> {
        self.all(name).last().ok_or(format!("--{name} is missing"))
    }

    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.all(name).last() {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("--{name} {text:?} is not a number of its range")),
        }
    }
}
