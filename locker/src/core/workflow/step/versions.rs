//! A set of versions of a key, such as `1-3,7`.

use std::fmt;
use std::str::FromStr;

/// Versions of a key, as ranges in order: a key that is used again and again has few gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Versions(Vec<(u32, u32)>);

impl Versions {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, version: u32) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&version))
    }

    /// The set with one more.
    #[must_use]
    pub(crate) fn with(mut self, version: u32) -> Self {
        if self.contains(version) {
            return self;
        }
        self.0.push((version, version));
        self.0.sort_unstable();
        self.0.dedup_by(|next, before| {
            let meets = before.1.checked_add(1) == Some(next.0);
            if meets {
                before.1 = next.1;
            }
            meets
        });
        self
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (first, last)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            if first == last { write!(f, "{comma}{first}")? } else { write!(f, "{comma}{first}-{last}")? }
        }
        Ok(())
    }
}

impl FromStr for Versions {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for word in text.split(',') {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let range: (u32, u32) = (first.parse().map_err(drop)?, last.parse().map_err(drop)?);
            let before = ranges.last().map_or(0, |(_, last)| *last);
            if range.0 <= before || range.1 < range.0 {
                return Err(());
            }
            ranges.push(range);
        }
        Ok(Self(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_kept_as_ranges_and_read_back() {
        let mut versions = Versions::default();
        assert!(versions.is_empty() && !versions.clone().with(1).is_empty());
        for version in [9, 1, 7, 3, 7, 2, 10] {
            versions = versions.with(version);
        }
        assert_eq!(versions.to_string(), "1-3,7,9-10");
        assert_eq!("1-3,7,9-10".parse(), Ok(versions.clone()));
        let known: Vec<u32> = (0..12).filter(|version| versions.contains(*version)).collect();
        assert_eq!(known, [1, 2, 3, 7, 9, 10]);
        for wrong in ["", "0", "2,1", "3-1", "1,1", "x", "1-"] {
            assert_eq!(wrong.parse::<Versions>(), Err(()), "{wrong}");
        }
    }
}
