import SanguineModel

// The commands of an account's sessions.
extension IdentityCommands {
    /// Ends one session of an account.
    ///
    /// - Throws: `not_found` if the account has no such live session.
    func end(_ session: Identifier, of account: Identifier) -> Command<Void> {
        Command(keys: [.session(session)]) { loaded throws(Problem) in
            guard var row = loaded.session(session), row.account == account, row.endedAt == nil,
                now < row.expiresAt
            else { throw .noSession }
            row.endedAt = now
            return Decision((), changes: [.put(.session(row))])
        }
    }

    /// Ends some of an account's sessions, the least recently used ones first.
    ///
    /// - Returns: Those that it ended, at most ``SurplusSessions/limit``; empty if there are no
    ///   more.
    func endSome(of account: Identifier, except kept: Identifier?) -> Command<[SessionRow]> {
        Command(keys: [], surplus: SurplusSessions(of: account, kept: 0)) { loaded in
            let ended = loaded.surplusSessions.filter { $0.id != kept }.map { row in
                var row = row
                row.endedAt = now
                return row
            }
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
