//! From words to an expression. Each function reads one level of the grammar, from the loosest to the tightest:
//!
//! ```text
//! or         = and ( OR and )*
//! and        = equality ( AND equality )*
//! equality   = comparison ( "=" comparison | "<>" comparison | IS [ NOT ] NULL )*
//! comparison = unary ( ">" unary | … | [ NOT ] BETWEEN unary AND unary | [ NOT ] IN ( … ) | [ NOT ] CONTAINS text )*
//! unary      = ( "+" | "-" | NOT ) unary | literal | name | "(" or ")"
//! ```

use super::expression::{Expression, Like, Problem, Size};
use super::token::{Token, Tokens, Word};
use super::value::Value;
use super::{Dialect, SqlError};

/// Deeper filters are refused: reading and asking them takes stack for each level. Nobody writes such.
const DEEPEST: usize = 100;
/// Of chains such as `a = b = c`, which are as deep as they are long: so many links in the whole filter.
const LINKS: usize = 100;

pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Expression, SqlError> {
    let mut parser = Parser { tokens: Tokens::new(text, dialect), next: None, depth: 0, links: 0 };
    let whole = parser.or()?;
    let at = parser.peek()?.1;
    if let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        log::warn!("what follows the filter is ignored, as real brokers do it: {rest}");
    }
    parser.built(whole.truth(), 0)
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    /// The next word and where it begins, once it has been looked at.
    next: Option<(Token, usize)>,
    /// How many parts the one that is being read is within.
    depth: usize,
    links: usize,
}

type Parsed = Result<Expression, SqlError>;

impl Parser<'_> {
    fn or(&mut self) -> Parsed {
        self.chain(Word::Or, Self::and, Expression::Or)
    }

    fn and(&mut self) -> Parsed {
        self.chain(Word::And, Self::equality, Expression::And)
    }

    fn chain(
        &mut self,
        word: Word,
        part: fn(&mut Self) -> Parsed,
        join: fn(Vec<Expression>) -> Expression,
    ) -> Parsed {
        let begin = self.peek()?.1;
        let first = part(self)?;
        if !self.takes_word(word)? {
            return Ok(first);
        }
        let mut parts = vec![self.built(first.truth(), begin)?];
        loop {
            let begin = self.peek()?.1;
            let next = part(self)?;
            parts.push(self.built(next.truth(), begin)?);
            if !self.takes_word(word)? {
                return Ok(join(parts));
            }
        }
    }

    fn equality(&mut self) -> Parsed {
        let mut left = self.comparison()?;
        let mut linked = false;
        loop {
            let at = self.peek()?.1;
            left = match self.peek()?.0 {
                Token::Sign("=") => {
                    self.take()?;
                    let right = self.comparison()?;
                    self.built(left.equal(right), at)?
                }
                Token::Sign("<>") => {
                    self.take()?;
                    let right = self.comparison()?;
                    self.built(left.equal(right).and_then(Expression::not), at)?
                }
                Token::Word(Word::Is) => {
                    self.take()?;
                    let not = self.takes_word(Word::Not)?;
                    self.expect(&Token::Word(Word::Null), "NULL")?;
                    let missing = left.missing();
                    self.built(if not { missing.not() } else { Ok(missing) }, at)?
                }
                _ => return Ok(left),
            };
            self.link(&mut linked, at)?;
        }
    }

    fn comparison(&mut self) -> Parsed {
        let mut left = self.unary()?;
        let mut linked = false;
        loop {
            let at = self.peek()?.1;
            if let Some(size) = self.size()? {
                self.take()?;
                let right = self.unary()?;
                left = self.built(left.size(size, right), at)?;
            } else {
                let not = self.takes_word(Word::Not)?;
                let Some(word) = self.relation()? else {
                    if not {
                        return Err(self.unexpected("BETWEEN, IN or CONTAINS"));
                    }
                    return Ok(left);
                };
                self.take()?;
                left = self.related(left, word, not, at)?;
            }
            self.link(&mut linked, at)?;
        }
    }

    fn related(&mut self, left: Expression, word: Word, not: bool, at: usize) -> Parsed {
        let how = match word {
            Word::Contains => Like::Contains,
            Word::StartsWith => Like::StartsWith,
            Word::EndsWith => Like::EndsWith,
            Word::Between => {
                let low = self.unary()?;
                self.expect(&Token::Word(Word::And), "AND")?;
                let high = self.unary()?;
                return self.built(left.between(low, high, not), at);
            }
            _ => {
                let texts = self.texts()?;
                return self.built(left.one_of(texts, not), at);
            }
        };
        let text = self.text()?;
        Ok(left.like(how, text, not))
    }

    fn unary(&mut self) -> Parsed {
        let (token, at) = self.take()?;
        let depth = self.depth;
        self.descend(at)?;
        let part = match token {
            Token::Sign("+") => self.unary(),
            Token::Sign("-") => self.unary().map(|part| Expression::Negative(Box::new(part))),
            Token::Word(Word::Not) => {
                let part = self.unary()?;
                self.built(part.not(), at)
            }
            Token::Sign("(") => {
                let part = self.or()?;
                self.expect(&Token::Sign(")"), "`)`").map(|()| part)
            }
            Token::Name(name) => Ok(Expression::Property(name)),
            token => match literal(&token) {
                Some(value) => self.built(value.map(Expression::Constant), at),
                None => {
                    self.next = Some((token, at));
                    Err(self.unexpected("a property or a value"))
                }
            },
        };
        self.depth = depth;
        part
    }

    /// `( 'a', 'b' )`.
    fn texts(&mut self) -> Result<Vec<String>, SqlError> {
        self.expect(&Token::Sign("("), "`(`")?;
        let mut texts = vec![self.text()?];
        while matches!(self.peek()?.0, Token::Sign(",")) {
            self.take()?;
            texts.push(self.text()?);
        }
        self.expect(&Token::Sign(")"), "`)`")?;
        Ok(texts)
    }

    fn text(&mut self) -> Result<String, SqlError> {
        match self.take()? {
            (Token::Text(text), _) => Ok(text),
            other => {
                self.next = Some(other);
                Err(self.unexpected("a text in single quotes"))
            }
        }
    }

    fn size(&mut self) -> Result<Option<Size>, SqlError> {
        Ok(match self.peek()?.0 {
            Token::Sign(">") => Some(Size::Greater),
            Token::Sign(">=") => Some(Size::GreaterEqual),
            Token::Sign("<") => Some(Size::Less),
            Token::Sign("<=") => Some(Size::LessEqual),
            _ => None,
        })
    }

    fn relation(&mut self) -> Result<Option<Word>, SqlError> {
        Ok(match self.peek()?.0 {
            Token::Word(
                word @ (Word::Between | Word::In | Word::Contains | Word::StartsWith | Word::EndsWith),
            ) => Some(word),
            _ => None,
        })
    }

    fn descend(&mut self, at: usize) -> Result<(), SqlError> {
        self.depth += 1;
        self.check_limit(self.depth, DEEPEST, at)
    }

    /// Each link after the first of a chain puts those before it one deeper.
    fn link(&mut self, linked: &mut bool, at: usize) -> Result<(), SqlError> {
        self.links += usize::from(std::mem::replace(linked, true));
        self.check_limit(self.links, LINKS, at)
    }

    fn check_limit(&self, n: usize, limit: usize, at: usize) -> Result<(), SqlError> {
        if n <= limit {
            return Ok(());
        }
        Err(self.tokens.error(at, format!("more than {limit} parts within each other")))
    }

    fn takes_word(&mut self, word: Word) -> Result<bool, SqlError> {
        let is_next = self.peek()?.0 == Token::Word(word);
        if is_next {
            self.take()?;
        }
        Ok(is_next)
    }

    fn expect(&mut self, token: &Token, name: &str) -> Result<(), SqlError> {
        if self.peek()?.0 != *token {
            return Err(self.unexpected(name));
        }
        self.take().map(drop)
    }

    fn peek(&mut self) -> Result<&(Token, usize), SqlError> {
        let next = match self.next.take() {
            Some(next) => next,
            None => self.tokens.next()?,
        };
        Ok(self.next.insert(next))
    }

    fn take(&mut self) -> Result<(Token, usize), SqlError> {
        match self.next.take() {
            Some(next) => Ok(next),
            None => self.tokens.next(),
        }
    }

    fn built<T>(&self, part: Result<T, Problem>, at: usize) -> Result<T, SqlError> {
        part.map_err(|problem| self.tokens.error(at, problem))
    }

    /// The word that was looked at last is not the one that is wanted here.
    fn unexpected(&self, wanted: &str) -> SqlError {
        let (found, at) = match &self.next {
            None | Some((Token::End, _)) => ("the end".to_owned(), None),
            Some((token, at)) => (in_words(token), Some(*at)),
        };
        let at = at.unwrap_or(usize::MAX);
        self.tokens.error(at, format!("{found} in place of {wanted}"))
    }
}

fn literal(token: &Token) -> Option<Result<Value<'static>, Problem>> {
    Some(match token {
        Token::Text(text) => Ok(Value::Text(text.clone().into())),
        Token::Word(Word::True) => Ok(Value::Bool(true)),
        Token::Word(Word::False) => Ok(Value::Bool(false)),
        Token::Word(Word::Null) => Ok(Value::Null),
        Token::Whole(digits) => whole(digits),
        Token::Fraction(digits) => fraction(digits),
        _ => return None,
    })
}

fn whole(digits: &str) -> Result<Value<'static>, Problem> {
    let n: i64 = digits.parse().map_err(|_| format!("{digits} is too great a number"))?;
    Ok(i32::try_from(n).map_or(Value::Long(n), Value::Int))
}

/// Real brokers take no zero with a point, nor what rounds to it.
fn fraction(digits: &str) -> Result<Value<'static>, Problem> {
    match digits.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 => Ok(Value::Double(n)),
        _ => Err(format!("{digits} is no number between the smallest and the greatest")),
    }
}

fn in_words(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("{word:?}").to_uppercase(),
        Token::Name(name) => format!("`{name}`"),
        Token::Text(text) => format!("'{text}'"),
        Token::Whole(digits) | Token::Fraction(digits) => digits.clone(),
        Token::Sign(sign) => format!("`{sign}`"),
        Token::End => "the end".to_owned(),
    }
}
