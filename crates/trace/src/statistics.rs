//! Counts over a recording.

use crashpoint_abi::record::Payload;

/// How much was recorded. Counts are of records, before any is split over mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub stores: u64,
    pub fills: u64,
    pub loads: u64,
    pub flushes: u64,
    pub fences: u64,
    pub opaques: u64,
    pub calls: u64,
    pub returns: u64,
    pub synchronisations: u64,
    pub maps: u64,
    pub unmaps: u64,
    pub msyncs: u64,
    /// Switches between call stacks, and definitions of new ones.
    pub context_switches: u64,
    pub context_definitions: u64,
    /// Bytes of all records of the PM streams, call stacks included, headers not.
    pub pm_bytes: u64,
    /// Bytes of values in stores.
    pub value_bytes: u64,
    pub flow_bytes: u64,
}

impl Statistics {
    pub(crate) fn count(&mut self, payload: &Payload<'_>) {
        let counter = match payload {
            Payload::Store { bytes, .. } => {
                self.value_bytes += bytes.len() as u64;
                &mut self.stores
            }
            Payload::Fill { .. } => &mut self.fills,
            Payload::Load { .. } => &mut self.loads,
            Payload::Flush { .. } => &mut self.flushes,
            Payload::Fence { .. } => &mut self.fences,
            Payload::Opaque => &mut self.opaques,
            Payload::Call { .. } => &mut self.calls,
            Payload::Return { .. } => &mut self.returns,
            Payload::Sync { .. } => &mut self.synchronisations,
            Payload::Map { .. } => &mut self.maps,
            Payload::Unmap { .. } => &mut self.unmaps,
            Payload::Msync { .. } => &mut self.msyncs,
            Payload::Context(_) => &mut self.context_switches,
            Payload::DefineContext { .. } => &mut self.context_definitions,
        };
        *counter += 1;
    }

    pub(crate) fn add(&mut self, other: &Statistics) {
        for (into, from) in self.fields().into_iter().zip(other.clone().fields()) {
            *into += *from;
        }
    }

    fn fields(&mut self) -> [&mut u64; 17] {
        let Statistics {
            stores,
            fills,
            loads,
            flushes,
            fences,
            opaques,
            calls,
            returns,
            synchronisations,
            maps,
            unmaps,
            msyncs,
            context_switches,
            context_definitions,
            pm_bytes,
            value_bytes,
            flow_bytes,
        } = self;
        [
            stores,
            fills,
            loads,
            flushes,
            fences,
            opaques,
            calls,
            returns,
            synchronisations,
            maps,
            unmaps,
            msyncs,
            context_switches,
            context_definitions,
            pm_bytes,
            value_bytes,
            flow_bytes,
        ]
    }

    /// All ordered events.
    pub fn events(&self) -> u64 {
        self.stores
            + self.fills
            + self.loads
            + self.flushes
            + self.fences
            + self.opaques
            + self.calls
            + self.returns
            + self.synchronisations
            + self.maps
            + self.unmaps
            + self.msyncs
    }

    /// Bytes of the PM streams for each store (fills are stores too), stacks and all other records
    /// included.
    pub fn bytes_per_store(&self) -> Option<f64> {
        let stores = self.stores + self.fills;
        (stores > 0).then(|| self.pm_bytes as f64 / stores as f64)
    }
}
