import SanguineModel

// The commands of an account's sessions.
extension IdentityCommands {
    /// The assertion of a refresh, and whether one is demanded.
    struct RefreshProof: Sendable {
        /// The verified assertion; `nil` for none.
        var proof: DeviceProof?
        /// Whether a session that is bound to a key needs an assertion.
        var isDemanded: Bool

        func keys(of session: Identifier) -> [Key] {
            [AttestedUse.key(AttestedUse.session(session))] + (proof?.keys(of: nil) ?? [])
        }

        /// Returns the changes of the assertion, which must be by the key of the session.
        ///
        /// - Throws: `attestation_failed`.
        func apply(to session: SessionRow, _ loaded: Loaded) throws(Problem) -> [Change] {
            let bound = try loaded.document(
                AttestedUse.self,
                AttestedUse.session(session.id)
            )
            guard let proof else {
                guard let bound else { return [] }
                guard !isDemanded else { throw AttestationFault.assertionMissing.problem }
                return [DeviceProof.bind(session, to: bound.key)]
            }
            guard bound?.key == proof.key.id else { throw AttestationFault.key.problem }
            return try proof.assert(loaded) + [DeviceProof.bind(session, to: proof.key.id)]
        }
    }

    /// Ends a session, and the access of its device to a registered account.
    ///
    /// Ending one that has already ended changes nothing.
    ///
    /// - Parameter session: The session as it was found: its account and device never change.
    /// - Returns: The command.
    func signOut(_ session: SessionRow) -> Command<Void> {
        Command(keys: keys(of: session)) { loaded in
            guard var row = loaded.session(session.id), row.endedAt == nil else {
                return Decision(())
            }
            row.endedAt = now
            return Decision((), changes: [.put(.session(row))] + closed(row, loaded))
        }
    }

    /// Ends one session of an account, and the access of its device to a registered account.
    ///
    /// - Parameter session: The session as it was found: its account and device never change.
    /// - Returns: The command. It refuses with `not_found` if the session is not live.
    func end(_ session: SessionRow) -> Command<Void> {
        Command(keys: keys(of: session)) { loaded throws(Problem) in
            guard var row = loaded.session(session.id), now < row.expiresAt,
                row.isOpen(in: loaded.account(row.account))
            else { throw .noSession }
            row.endedAt = now
            return Decision((), changes: [.put(.session(row))] + closed(row, loaded))
        }
    }

    /// Ends the access of a session's device to a registered account, because the session has
    /// ended.
    func close(_ session: SessionRow) -> Command<Void> {
        Command(keys: keys(of: session)) { loaded in
            Decision((), changes: closed(session, loaded))
        }
    }

    private func keys(of session: SessionRow) -> [Key] {
        [.session(session.id), .account(session.account)]
            + (session.device.map { [.device($0)] } ?? [])
    }

    private func closed(_ session: SessionRow, _ loaded: Loaded) -> [Change] {
        guard loaded.account(session.account)?.profile.kind == .registered,
            var device = session.device.flatMap(loaded.device), device.account == session.account
        else { return [] }
        device.era = DeviceRow.closed
        return [.put(.device(device))]
    }

    /// Ends all access to an account at once, except for one session and its device.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - kept: The session to keep, as it was found; `nil` for none.
    /// - Returns: The command. An account that is not in use does not change.
    func beginEra(of account: Identifier, except kept: SessionRow?) -> Command<Void> {
        let keys: [Key] = [.account(account)] + (kept.map(keys(of:)) ?? [])
        return Command(keys: keys) { loaded in
            guard var row = loaded.account(account), row.state == .active else {
                return Decision(())
            }
            let isKept = kept.flatMap { loaded.session($0.id) }?.isOpen(in: row) ?? false
            let device = kept?.device.flatMap(loaded.device)
            let hasAccess = device.map { $0.account == row.id && $0.era == row.era } ?? false
            row.era += 1
            var changes = [Change.put(.account(row))]
            if isKept, let kept, var session = loaded.session(kept.id) {
                session.era = row.era
                changes.append(.put(.session(session)))
                if hasAccess, let device {
                    changes.append(.put(.device(device.withAccess(to: row))))
                }
            }
            return Decision((), changes: changes)
        }
    }

    /// Marks some of an account's sessions of earlier eras as ended.
    ///
    /// They are void already. Lists and limits count only sessions without the mark.
    ///
    /// - Returns: Those that it marked, at most ``SurplusSessions/limit``; empty if there are no
    ///   more.
    func endSome(of account: Identifier) -> Command<[SessionRow]> {
        Command(keys: [.account(account)], surplus: SurplusSessions(of: account, kept: 0)) {
            loaded in
            guard let era = loaded.account(account)?.era else { return Decision([]) }
            let ended = Self.ended(loaded.surplusSessions.filter { $0.era < era }, at: now)
            return Decision(ended, changes: ended.map { .put(.session($0)) })
        }
    }

    /// Checks the name of a device.
    static func checked(deviceName: String?) throws(Problem) -> String? {
        guard let deviceName else { return nil }
        let range = WireLimits.deviceNameCharacters
        guard deviceName.isPlainText(of: range) else {
            throw Problem(
                .invalidContent,
                """
                Set 'deviceName' to \(range.lowerBound) to \(range.upperBound) printable \
                characters, or leave it out.
                """
            )
        }
        return deviceName
    }
}

extension SessionRow {
    /// The description for the owner.
    func info(current: Identifier?) -> SessionInfo {
        SessionInfo(
            id: id,
            deviceName: deviceName,
            createdAt: id.moment,
            lastUsedAt: rotatedAt,
            isCurrent: id == current
        )
    }
}
