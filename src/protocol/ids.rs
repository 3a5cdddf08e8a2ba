//! Message ids: where a message is stored, and the id that its producer gives it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use super::DecodeError;
use crate::message::{offset_message_id, upper_hex};

/// The id of a stored message: the address of its broker, and its place in the log there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetId {
    /// The broker that stored it.
    pub host: SocketAddr,
    /// Its place in the log.
    pub commit_log_offset: i64,
}

impl OffsetId {
    /// Reads 32 hexadecimal digits, or 56 with an IPv6 address.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(id: &str) -> Result<Self, DecodeError> {
        let wrong = || DecodeError::new("not the id of a stored message: 32 or 56 hexadecimal digits");
        let bytes = from_hex(id).ok_or_else(wrong)?;
        let (ip, rest): (IpAddr, &[u8]) = match bytes.len() {
            16 => bytes.split_first_chunk::<4>().map(|(ip, rest)| (Ipv4Addr::from(*ip).into(), rest)),
            28 => bytes.split_first_chunk::<16>().map(|(ip, rest)| (Ipv6Addr::from(*ip).into(), rest)),
            _ => None,
        }
        .ok_or_else(wrong)?;
        let (port, offset) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        let port = u16::try_from(u32::from_be_bytes(*port)).map_err(|_| wrong())?;
        let offset = offset.first_chunk().ok_or_else(wrong)?;
        Ok(Self { host: SocketAddr::new(ip, port), commit_log_offset: i64::from_be_bytes(*offset) })
    }
}

impl std::fmt::Display for OffsetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&offset_message_id(self.host, self.commit_log_offset))
    }
}

/// Makes ids for messages that are sent. They have the form of Java's, so that its tools can look them up.
///
/// No two ids of one process are the same: time and counter are one number that only ever grows, whatever the clock
/// does. Ids of different processes differ by address, process id and 32 random bits.
#[derive(Debug)]
pub struct UniqueIds {
    process: Vec<u8>,
    random: u32,
    /// Milliseconds, and 16 bits of counter.
    last: AtomicU64,
}

impl UniqueIds {
    /// A source of ids for this process. Without an address a random one is taken.
    pub fn new(ip: Option<IpAddr>, process_id: u32) -> Self {
        // The keys of a hash map are the random numbers of the standard library.
        let random = RandomState::new().hash_one(process_id).to_be_bytes();
        let [a, b, c, d, rest @ ..] = random;
        let mut process = match ip {
            Some(IpAddr::V4(ip)) => ip.octets().to_vec(),
            Some(IpAddr::V6(ip)) => ip.octets().to_vec(),
            None => rest.to_vec(),
        };
        let [.., high, low] = process_id.to_be_bytes();
        process.extend_from_slice(&[high, low]);
        Self { process, random: u32::from_be_bytes([a, b, c, d]), last: AtomicU64::new(0) }
    }

    /// The next id. The time, in ms since 1970, need not be exact, nor go on.
    pub fn next(&self, now_millis: i64) -> String {
        let wanted = u64::try_from(now_millis).unwrap_or(0) << 16;
        let advance = |last: u64| Some(wanted.max(last.wrapping_add(1)));
        let last =
            self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance).unwrap_or_else(|last| last);
        let this = wanted.max(last.wrapping_add(1));
        let (months, in_month) = month((this >> 16).cast_signed());

        let mut id = self.process.clone();
        // The time starts again every month: the random part must not be the same then.
        let [.., a, b, c, d] = months.to_be_bytes();
        id.extend_from_slice(&self.random.wrapping_add(u32::from_be_bytes([a, b, c, d])).to_be_bytes());
        let [.., a, b, c, d] = in_month.to_be_bytes();
        id.extend_from_slice(&[a, b, c, d]);
        let [.., high, low] = this.to_be_bytes();
        id.extend_from_slice(&[high, low]);
        upper_hex(&id)
    }
}

/// How many months have passed since the year 0, and how many ms of this one.
///
/// Java counts from the first of the month in local time, and its tools search from the time in the id on. We do not
/// know the reader's time zone, so months begin here when they begin in the last one of the world: read elsewhere, the
/// time is some hours too early, never too late.
fn month(millis: i64) -> (i64, i64) {
    const DAY: i64 = 86_400_000;
    let local = millis - 12 * 3_600_000;
    let (day, time_of_day) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    let (months, day_of_month) = civil(day);
    (months, day_of_month * DAY + time_of_day)
}

/// The month since the year 0 and the day in it, from 0, of a day since 1970 (proleptic Gregorian calendar). Years are
/// taken to begin in March, so that the day that not every year has is the last one.
fn civil(day: i64) -> (i64, i64) {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    let since_march_0 = day + 719_468;
    let era = since_march_0.div_euclid(DAYS_IN_400_YEARS);
    let day_of_era = since_march_0.rem_euclid(DAYS_IN_400_YEARS);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5;
    ((era * 400 + year) * 12 + month + 2, day_of_month)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_of_stored_messages() {
        let id = OffsetId { host: "127.0.0.1:10911".parse().unwrap(), commit_log_offset: 1234 };
        assert_eq!(id.to_string(), "7F00000100002A9F00000000000004D2");
        assert_eq!(OffsetId::parse("7f00000100002A9F00000000000004d2"), Ok(id));
        let v6 = OffsetId { host: "[fd00::2]:10911".parse().unwrap(), commit_log_offset: i64::MAX };
        assert_eq!(v6.to_string().len(), 56);
        assert_eq!(OffsetId::parse(&v6.to_string()), Ok(v6));
        for wrong in [
            "",
            "x",
            "7F00000100002A9F00000000000004D",
            "7F000001FFFFFFFF00000000000004D2",
            "ß0000000000000000000000000000000",
        ] {
            assert!(OffsetId::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ids_have_the_form_of_java() {
        let ids = UniqueIds::new(Some("10.1.2.3".parse().unwrap()), 0x1234_5678);
        let id = ids.next(1_795_974_234_019);
        assert!(id.starts_with("0A0102035678"), "{id}");
        // 29 November 2026, 17:43:54.019 UTC: day 29, 05:43:54.019 in the last time zone.
        let expected = 28 * 86_400_000_i64 + (5 * 3600 + 43 * 60 + 54) * 1000 + 19;
        assert_eq!(&id[20..], format!("{expected:08X}0000"));
        assert_eq!(UniqueIds::new(Some("fd00::2".parse().unwrap()), 1).next(0).len(), 56);
        assert_eq!(UniqueIds::new(None, 1).next(0).len(), 32);
    }

    #[test]
    fn months_follow_the_calendar() {
        for (day, months, day_of_month) in [
            (0, 1970 * 12, 0),
            (30, 1970 * 12, 30),
            (31, 1970 * 12 + 1, 0),
            (11_016, 2000 * 12 + 1, 28),
            (11_017, 2000 * 12 + 2, 0),
            (-1, 1969 * 12 + 11, 30),
        ] {
            assert_eq!(civil(day), (months, day_of_month), "{day}");
        }
        let mut before = civil(-1);
        for day in 0..200_000 {
            let now = civil(day);
            assert!(now == (before.0, before.1 + 1) || (now == (before.0 + 1, 0) && before.1 >= 27), "{day}");
            before = now;
        }
    }

    #[test]
    fn x12_no_id_comes_twice_whatever_the_clock_does() {
        let ids = UniqueIds::new(None, 1);
        let all: Vec<Vec<String>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|thread| {
                    let ids = &ids;
                    // Each with a clock that jumps back and forth, and once by exactly a month.
                    scope.spawn(move || {
                        let times = [1_000_000, 999_000, 1_000_500, 31 * 86_400_000 + 1_000_000];
                        (0..20_000).map(|n| ids.next(times[(n / 5000 + thread) % 4] + n as i64 % 7)).collect()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let distinct: HashSet<&String> = all.iter().flatten().collect();
        assert_eq!(distinct.len(), 160_000);
    }

    #[test]
    fn the_same_time_of_another_month_is_another_id() {
        let ids = UniqueIds::new(None, 1);
        // 1 January and 1 February 1970, at noon.
        let (first, second) = (ids.next(43_200_000), ids.next(43_200_000 + 31 * 86_400_000));
        assert_eq!(first[20..], second[20..]);
        assert_ne!(first, second);
    }

    #[test]
    fn x12_processes_differ() {
        assert_ne!(UniqueIds::new(None, 1).next(0)[12..20], UniqueIds::new(None, 1).next(0)[12..20]);
    }
}
