extension ClientStore {
    /// A change of entries.
    enum EntryChange: Sendable, Hashable {
        /// Written, in place of what was there.
        case put(StoredEntry, epoch: UInt64)
        /// Kept, and no longer fresh.
        case markStale(InvalidationMarks.Scope)
        /// Removed, as far as the owner may see it.
        case remove(key: String, owner: String)
    }
}
