//! Pages of an ascending list (rooms 9.4; ours 15, 16).

use serde::Deserialize;

/// Which end a page is taken from when no cursor is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    #[default]
    Oldest,
    Newest,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub before: Option<u64>,
    pub after: Option<u64>,
    pub limit: usize,
    pub order: Order,
}

/// One page.
#[derive(Debug)]
pub(crate) struct Page<'a, T> {
    pub items: &'a [T],
    /// First and last position of the whole list; 0 if it is empty.
    pub oldest: u64,
    pub newest: u64,
    pub more_before: bool,
    pub more_after: bool,
    /// Something after `after` is lost.
    pub truncated: bool,
}

impl<'a, T> Page<'a, T> {
    /// Cuts the page; `lost` is the highest position that is no longer in the list.
    pub(crate) fn of(all: &'a [T], position: impl Fn(&T) -> u64, range: Range, lost: u64) -> Self {
        let start = range.after.map_or(0, |after| all.partition_point(|t| position(t) <= after));
        let end =
            range.before.map_or(all.len(), |before| all.partition_point(|t| position(t) < before));
        let within = all.get(start..end).unwrap_or_default();
        let from_end = match (range.before, range.after) {
            (Some(_), None) => true,
            (None, None) => matches!(range.order, Order::Newest),
            (_, Some(_)) => false,
        };
        let limit = range.limit.min(within.len());
        let items = if from_end {
            within.get(within.len() - limit..).unwrap_or_default()
        } else {
            within.get(..limit).unwrap_or_default()
        };
        let ends = |items: &[T]| {
            let first = items.first().map_or(0, &position);
            (first, items.last().map_or(0, &position))
        };
        let (oldest, newest) = ends(all);
        let (first, last) = ends(items);
        Self {
            items,
            oldest,
            newest,
            more_before: !items.is_empty() && first > oldest,
            more_after: !items.is_empty() && last < newest,
            truncated: range.after.is_some_and(|after| after < lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_as_the_contract_says() {
        let all = [2, 4, 5, 7, 9];
        type Case = (Option<u64>, Option<u64>, usize, Order, &'static [u64], bool, bool);
        let table: &[Case] = &[
            (None, None, 2, Order::Oldest, &[2, 4], false, true),
            (None, None, 2, Order::Newest, &[7, 9], true, false),
            (None, None, 9, Order::Newest, &[2, 4, 5, 7, 9], false, false),
            (None, Some(4), 2, Order::Oldest, &[5, 7], true, true),
            (None, Some(4), 2, Order::Newest, &[5, 7], true, true),
            (Some(7), None, 2, Order::Oldest, &[4, 5], true, true),
            (Some(9), Some(2), 2, Order::Oldest, &[4, 5], true, true),
            (Some(4), Some(7), 2, Order::Oldest, &[], false, false),
            (None, Some(9), 2, Order::Oldest, &[], false, false),
        ];
        for (before, after, limit, order, items, more_before, more_after) in table {
            let range = Range { before: *before, after: *after, limit: *limit, order: *order };
            let page = Page::of(&all, |n| *n, range, 0);
            assert_eq!(page.items, *items, "{range:?}");
            assert_eq!((page.more_before, page.more_after), (*more_before, *more_after));
            assert_eq!((page.oldest, page.newest), (2, 9));
        }
    }

    #[test]
    fn only_a_page_after_a_cursor_can_be_truncated() {
        let page = |after| {
            let range = Range { before: None, after, limit: 5, order: Order::Oldest };
            Page::of(&[6_u64, 8], |n| *n, range, 4).truncated
        };
        assert!(!page(None));
        assert!(page(Some(3)));
        assert!(!page(Some(4)));
    }
}
