import Crypto
import Foundation
package import SanguineModel

/// The commands of the ways to sign in to an account.
struct LoginCommands: Sendable {
    let identity: IdentityCommands

    private var now: Timestamp { identity.now }

    /// Removes a login, and ends all access except for that of the caller's session and its device.
    ///
    /// Sessions that were begun with the login end with the others, so that it leaves no access.
    ///
    /// - Parameters:
    ///   - login: The login, as it was found.
    ///   - account: The account.
    ///   - caller: The session that asks, with its proof.
    /// - Returns: The command, with the head that includes the change. It refuses with `not_found`,
    ///   `session_ended`, `credentials_invalid` without the proof, and `last_login`.
    func remove(
        _ login: Login,
        of account: Identifier,
        by caller: IdentityCommands.Caller
    ) -> Command<Int64> {
        let keys =
            [.account(account), .balance(account), Login.key(login.name)] + caller.keys
        return Command(keys: keys) { loaded, reader throws(Problem) in
            guard var row = loaded.account(account), row.state == .active,
                var feed = loaded.balance(account)
            else { throw .noAccount }
            try caller.proof?.check(loaded, in: row, at: now)
            guard let known = try loaded.document(Login.self, login.name),
                known.account == account
            else { throw .noLogin }
            guard try count(of: account, reader) > 1 else { throw .lastLogin }
            let session = loaded.session(caller.session).flatMap {
                $0.isOpen(in: row) ? $0 : nil
            }
            let device = caller.device.flatMap(loaded.device)
            let hasAccess = device.map { $0.account == row.id && $0.era == row.era } ?? false
            row.era += 1
            if case .email(let address) = known.parsedName, row.profile.email == address {
                row.profile.email = nil
            }
            var changes = [Change.delete(known)] + Verification.voided(of: account)
            changes += identity.store(&row, &feed, loaded, quotas: false)
            if var session {
                session.era = row.era
                changes.append(.put(.session(session)))
            }
            if hasAccess, let device { changes.append(.put(.device(device.withAccess(to: row)))) }
            return Decision(feed.head, changes: changes)
        }
    }

    private func count(
        of account: Identifier,
        _ reader: any RecordReader
    ) throws(Problem) -> Int {
        do {
            return try reader.ownedRows(of: account).documents.count { $0.kind == .login }
        } catch {
            // The driver fails the command.
            throw Problem(.internalFault, "Send the request again: it takes effect once.")
        }
    }
}

extension Verification {
    /// Returns the changes that void the codes by which sessions of an account change its address.
    static func voided(of account: Identifier) -> [Change] {
        [Purpose.registration, .emailChange].map { purpose in
            .delete(key(id(purpose, account.description)))
        }
    }
}

// The ways to sign in to an account.
extension Authority {
    /// Returns the ways to sign in to an account, the oldest first, without secrets.
    ///
    /// - Returns: At most ``LoginInfo/listed``; none for a guest.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails.
    package func logins(of account: Identifier) async throws(Problem) -> Items<LoginInfo> {
        Items(items: LoginInfo.all(in: try await loginRows(of: account)))
    }

    /// Removes a way to sign in to an account, and ends all other access to it.
    ///
    /// - Parameters:
    ///   - id: The id of the login; see ``LoginInfo/id``.
    ///   - identity: The caller.
    ///   - request: The proof that the caller's device asks, as for a deletion of the account.
    /// - Returns: The remaining logins, and the head that includes the change.
    /// - Throws: `not_found`, `session_ended`, `credentials_invalid` without the proof, or
    ///   `last_login` for the only login.
    package func removeLogin(
        _ id: String,
        _ identity: Identity,
        _ request: LoginRemoval
    ) async throws(Problem) -> (Items<LoginInfo>, head: Int64) {
        var found: Login?
        for row in try await loginRows(of: identity.account) {
            let login = try Login(row)
            if login.publicID == id { found = login }
        }
        guard let found else { throw .noLogin }
        let caller = try await caller(identity, try proof(request.refreshToken, of: identity))
        let commands = LoginCommands(identity: self.identity)
        let head = try await perform(
            commands.remove(found, of: identity.account, by: caller)
        )
        await eraBegan(of: identity.account)
        return (try await logins(of: identity.account), head)
    }

    private func loginRows(of account: Identifier) async throws(Problem) -> [DocumentRow] {
        try await read { storage throws(StorageError) in
            try await storage.documents(LoginInfo.query(of: account))
        }
    }
}

extension LoginInfo {
    /// The largest number of logins that are listed: 1,000, more than an account can have.
    static let listed = 1_000

    /// The query for the logins of an account.
    package static func query(of account: Identifier) -> DocumentQuery {
        DocumentQuery(.login, of: account, limit: listed)
    }

    /// Returns the descriptions of the rows that ``query(of:)`` finds, the oldest first.
    package static func all(in rows: [DocumentRow]) -> [LoginInfo] {
        rows.compactMap { (try? Login($0))?.info }
            .sorted { ($0.boundAt, $0.id) < ($1.boundAt, $1.id) }
    }
}

extension Login {
    /// The id by which the owner names the login: a hash, which contains no address or subject.
    var publicID: String {
        Base64URL.encode(SHA256.hash(data: Data("login \(account) \(name)".utf8)).prefix(16))
    }

    /// The name in its parts; `nil` if a newer version of the server has written it.
    var parsedName: Name? {
        let parts = name.split(separator: " ").map { $0.removingPercentEncoding ?? "" }
        return switch (parts.first, parts.count) {
        case ("email", 2): .email(parts[1])
        case ("identity", 3): .identity(provider: parts[1], subject: parts[2])
        default: nil
        }
    }

    /// The description for the owner.
    fileprivate var info: LoginInfo? {
        switch parsedName {
        case .email(let address):
            LoginInfo(id: publicID, kind: .email, email: address, boundAt: createdAt)
        case .identity(let provider, _):
            LoginInfo(id: publicID, kind: .identity, provider: provider, boundAt: createdAt)
        case nil: nil
        }
    }
}

extension Problem {
    fileprivate static var noLogin: Problem {
        Problem(.notFound, "Use the 'id' of a login that GET /v1/account/logins lists.")
    }

    fileprivate static var lastLogin: Problem {
        Problem(
            .lastLogin,
            """
            Bind another login first, or delete the account with DELETE /v1/account. Nobody can \
            sign in to an account without a login.
            """
        )
    }
}
