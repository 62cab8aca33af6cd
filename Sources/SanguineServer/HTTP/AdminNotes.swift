import Hummingbird
import SanguineAuthority
import SanguineModel

/// Makes the notes for the audit log from requests to the admin port.
///
/// Everything that gives an administrator personal data is recorded: exports, with a reason and for
/// owners only, and each account or page of accounts that is read. Pages of the audit log and
/// verifications of the ledger are not: they name no person.
struct AdminNotes: Sendable {
    private let gate: Gate
    private let permission: AdminPermission

    init(_ gate: Gate, _ permission: AdminPermission) {
        (self.gate, self.permission) = (gate, permission)
    }

    /// Returns the note of an act whose reason is in the query.
    ///
    /// - Throws: `role_missing` after an entry in the audit log, `malformed_request` without a
    ///   reason, `invalid_content` for one that cannot be stored.
    func note(
        _ action: String,
        _ least: AdminRole,
        _ request: Request,
        _ context: ServerContext
    ) async throws(Problem) -> AuditNote {
        let by = try await permission.administrator(least, for: action, context)
        guard let reason = gate.wire(request, context).query["reason"] else {
            throw Problem(.malformedRequest, "Add '?reason=' to the path, for the audit log.")
        }
        return by.note(action, nil, try Self.checked(reason))
    }

    /// Returns the note of a read, whose reason is optional.
    func noteOfReading(
        _ action: String,
        _ account: Identifier?,
        _ request: Request,
        _ context: ServerContext
    ) throws(Problem) -> AuditNote {
        let by = try context.administrator(.read)
        let reason = gate.wire(request, context).query["reason"] ?? ""
        return by.note(action, account, reason.isEmpty ? "" : try Self.checked(reason))
    }

    static func checked(_ reason: String) throws(Problem) -> String {
        guard reason.isPlainText(of: WireLimits.reasonCharacters) else {
            let range = WireLimits.reasonCharacters
            throw Problem(
                .invalidContent,
                "Set 'reason' to \(range.lowerBound) to \(range.upperBound) printable characters."
            )
        }
        return reason
    }
}
