//! A plan as a list of choices, and the walk over all of them.

use std::fmt;
use std::str::FromStr;

/// One plan: which of the possible things happened at each point where there were several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan(Vec<u8>);

/// Makes the choices of a plan, and then those of the next one.
#[derive(Debug)]
pub struct Choices {
    taken: Vec<Choice>,
    at: usize,
    /// The plan is another one than the last from here on.
    new_from: usize,
    random: Option<fastrand::Rng>,
}

#[derive(Debug, Clone, Copy)]
struct Choice {
    taken: u8,
    of: u8,
}

impl Choices {
    /// Begin with this plan, and go on with the first possibility everywhere.
    #[must_use]
    pub fn from_plan(plan: &Plan) -> Self {
        // How many possibilities there are is learned when the point is reached.
        let taken: Vec<_> = plan.0.iter().map(|taken| Choice { taken: *taken, of: 0 }).collect();
        Self { taken, at: 0, new_from: 0, random: None }
    }

    /// Choose by chance; the same seed chooses the same.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        Self { taken: Vec::new(), at: 0, new_from: 0, random: Some(fastrand::Rng::with_seed(seed)) }
    }

    /// Choose one of this many.
    ///
    /// # Panics
    ///
    /// If the same choices led to another point than before: then something depends on chance.
    pub fn pick(&mut self, of: usize) -> usize {
        self.choose(of, 1)
    }

    /// Choose one of this many, and by chance mostly the first.
    ///
    /// # Panics
    ///
    /// As [`pick`](Self::pick).
    pub fn pick_rarely(&mut self, of: usize) -> usize {
        const RARELY: u8 = 12;
        self.choose(of, RARELY)
    }

    /// By chance, one choice in `one_in` is free, and the others are the first possibility.
    fn choose(&mut self, of: usize, one_in: u8) -> usize {
        let of = u8::try_from(of).expect("few possibilities");
        if of < 2 {
            return 0;
        }
        if self.at == self.taken.len() {
            let free = |random: &mut fastrand::Rng| one_in == 1 || random.u8(0..one_in) == 0;
            let taken =
                self.random.as_mut().map_or(0, |random| if free(random) { random.u8(0..of) } else { 0 });
            self.taken.push(Choice { taken, of });
        }
        let plan: Vec<_> = self.taken.iter().map(|choice| choice.taken).collect();
        let choice = &mut self.taken[self.at];
        assert!(
            choice.of == 0 || choice.of == of,
            "the plan is not deterministic: {} is not {of}, at {} of {:?}",
            choice.of,
            self.at,
            plan
        );
        choice.of = of;
        self.at += 1;
        usize::from(choice.taken.min(of - 1))
    }

    /// Whether no earlier plan has come here by these choices.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.at >= self.new_from
    }

    /// Go on to the next plan, if there is one.
    pub fn advance(&mut self) -> bool {
        self.taken.truncate(self.at);
        self.at = 0;
        while let Some(last) = self.taken.last_mut() {
            if last.taken + 1 < last.of {
                last.taken += 1;
                self.new_from = self.taken.len();
                return true;
            }
            self.taken.pop();
        }
        false
    }

    /// The plan so far, to play it again.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let end =
            self.taken[..self.at].iter().rposition(|choice| choice.taken != 0).map_or(0, |last| last + 1);
        Plan(self.taken[..end].iter().map(|choice| choice.taken).collect())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        if choices.is_empty() { f.write_str("-") } else { f.write_str(&choices.join(".")) }
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::default());
        }
        let wrong =
            |_| format!("{text} is not a plan; a plan is the numbers that a report prints, such as 0.3.1");
        text.split('.').map(str::parse).collect::<Result<_, _>>().map(Self).map_err(wrong)
    }
}
