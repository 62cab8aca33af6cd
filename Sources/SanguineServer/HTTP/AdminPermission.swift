import Hummingbird
import SanguineAuthority
import SanguineModel

/// Checks the roles of administrators for changes and exports, and records the refusals.
struct AdminPermission: Sendable {
    let authority: Authority

    /// Returns the administrator of a request.
    ///
    /// - Throws: `unauthenticated`, or `role_missing` if the role permits less, after an entry in
    ///   the audit log.
    func administrator(
        _ least: AdminRole,
        for action: String,
        _ context: ServerContext
    ) async throws(Problem) -> Administrator {
        do throws(Problem) {
            return try context.administrator(least)
        } catch {
            if let administrator = context.exchange.administrator {
                // The request is not read further, so its reason is unknown.
                let note = AuditNote(
                    actor: administrator.name,
                    role: administrator.role.rawValue,
                    action: action,
                    account: context.parameters.get("id").flatMap { Identifier($0) },
                    reason: ""
                )
                try await authority.record(note, outcome: error.code.rawValue)
            }
            throw error
        }
    }
}
