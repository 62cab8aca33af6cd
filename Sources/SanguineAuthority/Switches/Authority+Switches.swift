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
        return SwitchesOverview(
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
    ///   - note: The entry of the audit log.
    /// - Returns: The switches with their new number.
    /// - Throws: The problem of the storage.
    package func setSwitches(
        _ switches: Switches,
        by note: AuditNote? = nil
    ) async throws(Problem) -> SwitchesOverview {
        let document = try await perform(switchesCommand(switches), by: note)
        self.switches.serve(document.numbered)
        return SwitchesOverview(
            revision: document.revision,
            switches: document.switches,
            changedAt: document.changedAt
        )
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
    func switchesCommand(_ switches: Switches) -> Command<SwitchesDocument> {
        let now = clock.now()
        let key = SwitchesDocument.key(SwitchesDocument.name)
        return Command(keys: [key]) { loaded throws(Problem) in
            let last = try loaded.document(SwitchesDocument.self, SwitchesDocument.name)
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
