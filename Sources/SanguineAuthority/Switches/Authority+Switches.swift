package import SanguineModel

// The switches that all apps receive.
extension Authority {
    /// The switches as administrators see them.
    package struct SwitchesOverview: Codable, Sendable {
        /// The number of the configuration; 0 if there was never any.
        package var revision: Int64
        package var switches: JSONValue
        /// The time of the last change; `nil` if there was none.
        package var changedAt: Timestamp?
    }

    /// Returns the current switches.
    package func switchesOverview() async throws(Problem) -> SwitchesOverview {
        let document = try await storedSwitches()
        return Self.overview(document)
    }

    private static func overview(_ document: SwitchesDocument?) -> SwitchesOverview {
        SwitchesOverview(
            revision: document?.revision ?? 0,
            switches: document?.switches ?? Switches().json,
            changedAt: document?.changedAt
        )
    }

    /// Replaces all switches, and sends them to every app.
    ///
    /// This writes one row. The feeds of the accounts stay as they are, and their live connections
    /// are woken.
    ///
    /// - Parameters:
    ///   - switches: The switches.
    ///   - tags: The entity tags of the switches that are to be replaced (`If-Match`); `nil` for
    ///     any. So two administrators do not undo each other's changes.
    ///   - note: The entry of the audit log.
    /// - Returns: The switches with their new number.
    /// - Throws: `precondition_failed` for switches with another tag, or the problem of the
    ///   storage.
    package func setSwitches(
        _ switches: Switches,
        replacing tags: String? = nil,
        by note: AuditNote? = nil
    ) async throws(Problem) -> SwitchesOverview {
        let document = try await perform(switchesCommand(switches, replacing: tags), by: note)
        self.switches.serve(document.numbered)
        return Self.overview(document)
    }

    /// Serves the switches that the storage contains.
    ///
    /// Until this has succeeded, apps keep the switches that they have.
    ///
    /// - Throws: The problem of the storage; call it again later.
    package func loadSwitches() async throws(Problem) {
        switches.forget()
        switches.begin(with: try await storedSwitches()?.numbered)
    }

    /// The command that stores switches under the next number.
    ///
    /// Its precondition is checked in the transaction.
    func switchesCommand(
        _ switches: Switches,
        replacing tags: String? = nil
    ) -> Command<SwitchesDocument> {
        let now = clock.now()
        let key = SwitchesDocument.key(SwitchesDocument.name)
        return Command(keys: [key]) { loaded throws(Problem) in
            let last = try loaded.document(SwitchesDocument.self, SwitchesDocument.name)
            if let tags {
                let tag = WireResponse.tag(of: ResponseEncoder.encode(Self.overview(last)))
                guard WireResponse.matches(tags, tag) else {
                    throw Problem(
                        .preconditionFailed,
                        "Read the switches again: they have changed since."
                    )
                }
            }
            let document = SwitchesDocument(
                revision: (last?.revision ?? 0) + 1,
                switches: switches.json,
                changedAt: now
            )
            return Decision(document, changes: [.put(document)])
        }
    }

    private func storedSwitches() async throws(Problem) -> SwitchesDocument? {
        let key = SwitchesDocument.key(SwitchesDocument.name)
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([key])
        }
        return try loaded.document(SwitchesDocument.self, SwitchesDocument.name)
    }
}

extension Switches {
    /// Reads switches that an administrator sends.
    ///
    /// - Throws: `invalid_content` with the first faults, and for too many bytes.
    package init(checking json: JSONValue) throws(Problem) {
        let (switches, faults) = Switches.reading(json)
        guard faults.isEmpty else {
            let listed = faults.prefix(5).joined(separator: " ")
            throw Problem(.invalidContent, listed)
        }
        guard ResponseEncoder.encode(switches.json).count <= WireLimits.switchesBytes else {
            throw Problem(
                .invalidContent,
                "Send at most \(WireLimits.switchesBytes) bytes of switches: remove names."
            )
        }
        self = switches
    }
}
