//! Which persistent memory lies where in which process.

use crashpoint_trace::{PmAddress, ProcessIndex};

#[derive(Clone, Copy, Debug)]
struct Mapping {
    process: ProcessIndex,
    start: u64,
    end: u64,
    pm: PmAddress,
}

/// The mappings at this moment of the recording. There are few of them.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    list: Vec<Mapping>,
}

impl Mappings {
    pub(crate) fn map(&mut self, process: ProcessIndex, start: u64, length: u64, pm: PmAddress) {
        self.unmap(process, start, length);
        self.list.push(Mapping {
            process,
            start,
            end: start.saturating_add(length),
            pm,
        });
    }

    pub(crate) fn unmap(&mut self, process: ProcessIndex, start: u64, length: u64) {
        let end = start.saturating_add(length);
        let mut rest = Vec::new();
        self.list.retain(|mapping| {
            let apart = mapping.process != process || mapping.end <= start || end <= mapping.start;
            if !apart {
                rest.push(*mapping);
            }
            apart
        });
        for mapping in rest {
            if mapping.start < start {
                self.list.push(Mapping {
                    end: start,
                    ..mapping
                });
            }
            if end < mapping.end {
                self.list.push(Mapping {
                    start: end,
                    pm: PmAddress(mapping.pm.0 + (end - mapping.start)),
                    ..mapping
                });
            }
        }
    }

    /// The persistent byte at an address.
    pub(crate) fn find(&self, process: ProcessIndex, address: u64) -> Option<PmAddress> {
        let mapping = self.list.iter().find(|mapping| {
            mapping.process == process && mapping.start <= address && address < mapping.end
        })?;
        Some(PmAddress(mapping.pm.0 + (address - mapping.start)))
    }

    /// Where the first mapping of a process begins.
    pub(crate) fn lowest(&self, process: ProcessIndex) -> Option<u64> {
        let own = self
            .list
            .iter()
            .filter(|mapping| mapping.process == process);
        own.map(|mapping| mapping.start).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_its_process_until_it_is_unmapped() {
        let mut mappings = Mappings::default();
        let (one, two) = (ProcessIndex(1), ProcessIndex(2));
        mappings.map(one, 0x1000, 0x3000, PmAddress(0x8000));
        assert_eq!(mappings.find(one, 0x1008), Some(PmAddress(0x8008)));
        assert_eq!(mappings.find(one, 0x4000), None);
        assert_eq!(mappings.find(two, 0x1008), None);
        mappings.unmap(one, 0x2000, 0x1000);
        assert_eq!(mappings.find(one, 0x1fff), Some(PmAddress(0x8fff)));
        assert_eq!(mappings.find(one, 0x2000), None);
        assert_eq!(mappings.find(one, 0x3000), Some(PmAddress(0xa000)));
        mappings.map(one, 0x1000, 0x10, PmAddress(0));
        assert_eq!(mappings.find(one, 0x1008), Some(PmAddress(8)));
        assert_eq!(mappings.find(one, 0x1010), Some(PmAddress(0x8010)));
        assert_eq!(
            (mappings.lowest(one), mappings.lowest(two)),
            (Some(0x1000), None)
        );
    }
}
