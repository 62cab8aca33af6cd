import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

/// `/admin/v1`: accounts, as support sees and changes them, and the audit log.
///
/// Each change is recorded in the audit log in the same transaction, and each read of personal data
/// before it leaves the server.
struct AdminAccountRoutes: Sendable {
    let authority: Authority
    let gate: Gate
    let calls: CallRunner?

    private var permission: AdminPermission { AdminPermission(authority: authority) }
    private var notes: AdminNotes { AdminNotes(gate, permission) }

    func add(to admin: RouterGroup<ServerContext>) {
        admin.get("accounts", use: find)
        admin.get("accounts/:id", use: show)
        admin.delete("accounts/:id", use: delete)
        admin.get("accounts/:id/export", use: export)
        admin.post("accounts/:id/grants", use: grant)
        admin.post("accounts/:id/debits", use: debit)
        admin.post("accounts/:id/quotas/:name", use: giveBack)
        admin.put("accounts/:id/plan", use: setPlan)
        admin.delete("accounts/:id/sessions", use: endSessions)
        admin.delete("accounts/:id/sessions/:session", use: endSession)
        admin.get("audit", use: audit)
    }

    // MARK: - Reading

    @Sendable
    private func find(_ request: Request, _ context: ServerContext) async throws -> Response {
        _ = try context.administrator(.read)
        let wire = gate.wire(request, context)
        if let device = wire.query["deviceId"] {
            let account = try await authority.account(deviceID: device)
            return try await found(account, request, context)
        }
        if let email = wire.query["email"] {
            let account = try await authority.account(email: email)
            return try await found(account, request, context)
        }
        let kind: Account.Kind?
        switch wire.query["kind"] {
        case nil: kind = nil
        case let text?:
            guard let known = Account.Kind(rawValue: text) else {
                throw Problem(.malformedRequest, "Set 'kind' to guest or registered.")
            }
            kind = known
        }
        let (limit, cursor) = try page(wire)
        let accounts = try await authority.accounts(kind: kind, limit: limit, cursor: cursor)
        try await recordReading("account.list", of: nil, request, context)
        return Response(.read(accounts, to: wire))
    }

    private func found(
        _ account: Account?,
        _ request: Request,
        _ context: ServerContext
    ) async throws(Problem) -> Response {
        try await recordReading("account.find", of: account?.id, request, context)
        guard let account else {
            throw Problem(.notFound, "Check the device id or e-mail address: no account has it.")
        }
        return Response(.read(account, to: gate.wire(request, context)))
    }

    @Sendable
    private func show(_ request: Request, _ context: ServerContext) async throws -> Response {
        _ = try context.administrator(.read)
        let id = try accountID(context)
        let overview = try await authority.overview(of: id)
        try await recordReading("account.show", of: id, request, context)
        return Response(.read(overview, to: gate.wire(request, context)))
    }

    @Sendable
    private func audit(_ request: Request, _ context: ServerContext) async throws -> Response {
        _ = try context.administrator(.read)
        let wire = gate.wire(request, context)
        let (limit, cursor) = try page(wire)
        return Response(
            .read(try await authority.audit(limit: limit, cursor: cursor), to: wire)
        )
    }

    @Sendable
    private func export(_ request: Request, _ context: ServerContext) async throws -> Response {
        let note = try await note("account.export", .owner, request, context)
        // An account that does not exist is not recorded.
        let answer = try await authority.exportAccount(try accountID(context), by: note)
        return Response(answer, on: context.channel)
    }

    // MARK: - Changing

    @Sendable
    private func grant(_ request: Request, _ context: ServerContext) async throws -> Response {
        let by = try await permission.administrator(.support, for: "account.grant", context)
        let (submission, reason) = try await gift(
            request,
            context,
            as: GrantRequest.self,
            meaning: \.meaning,
            reason: \.reason
        )
        let id = try accountID(context)
        let detail = (try? submission.content.get()).map { grant in
            "\(grant.amount)" + (grant.expiresAt.map { " until \($0)" } ?? "")
        }
        let note = by.note("account.grant", id, reason, detail)
        return Response(.answer(try await authority.grant(id, submission, by: note)))
    }

    @Sendable
    private func debit(_ request: Request, _ context: ServerContext) async throws -> Response {
        let by = try await permission.administrator(.support, for: "account.debit", context)
        let (submission, reason) = try await gift(request, context)
        let id = try accountID(context)
        let amount = (try? submission.content.get())?.amount
        let note = by.note("account.debit", id, reason, amount.map(String.init))
        return Response(.answer(try await authority.debit(id, submission, by: note)))
    }

    @Sendable
    private func giveBack(_ request: Request, _ context: ServerContext) async throws -> Response {
        let by = try await permission.administrator(.support, for: "account.giveBack", context)
        let (submission, reason) = try await gift(request, context)
        let id = try accountID(context)
        let name = context.parameters.get("name") ?? ""
        let units = (try? submission.content.get())?.amount
        let note = by.note("account.giveBack", id, reason, units.map { "\($0) \(name)" })
        return Response(.answer(try await authority.giveBack(name, id, submission, by: note)))
    }

    @Sendable
    private func setPlan(_ request: Request, _ context: ServerContext) async throws -> Response {
        struct Body: Codable, Sendable {
            var plan: Account.Plan
            var expiresAt: Timestamp?
            var reason: String
        }
        let by = try await permission.administrator(.support, for: "account.plan", context)
        let bytes = try await gate.collect(request, context)
        let body = try WireBody.decode(Body.self, from: bytes)
        let id = try accountID(context)
        _ = try await authority.account(id)  // "Not found" takes precedence over invalid content.
        let plan = try body.get()
        let detail = plan.plan.rawValue + (plan.expiresAt.map { " until \($0)" } ?? "")
        let note = by.note("account.plan", id, try AdminNotes.checked(plan.reason), detail)
        let (account, head) = try await authority.setPlan(
            plan.plan,
            until: plan.expiresAt,
            of: id,
            by: note
        )
        return Response(.changed(account, head: head))
    }

    @Sendable
    private func endSessions(
        _ request: Request,
        _ context: ServerContext
    ) async throws -> Response {
        let note = try await note("account.revoke", .support, request, context)
        let id = try accountID(context)
        _ = try await authority.account(id)
        try await authority.endSessions(of: id, by: note)
        return Response(status: .noContent)
    }

    @Sendable
    private func endSession(
        _ request: Request,
        _ context: ServerContext
    ) async throws -> Response {
        var note = try await note("account.revoke", .support, request, context)
        guard let session = context.parameters.get("session").flatMap({ Identifier($0) }) else {
            throw Problem(.notFound, "Use the id of a session of the account.")
        }
        note.detail = session.description
        try await authority.endSession(session, of: try accountID(context), by: note)
        return Response(status: .noContent)
    }

    @Sendable
    private func delete(_ request: Request, _ context: ServerContext) async throws -> Response {
        let note = try await note("account.delete", .owner, request, context)
        let id = try accountID(context)
        var (status, head) = try await authority.deleteAccount(id, by: note)
        // The rest is periodic work, which also repeats a step that fails here.
        if let calls, (try? await calls.remove(id, limit: Self.removalSteps)) != nil {
            status = (try? await authority.removalStatus(id)) ?? status
        }
        return Response(.changed(RemovalAnswer(removal: status), head: head))
    }

    /// The number of steps that the request for a deletion performs.
    private static let removalSteps = 16

    // MARK: - Requests

    /// Returns the note of an act on the account of the path, whose reason is in the query.
    private func note(
        _ action: String,
        _ least: AdminRole,
        _ request: Request,
        _ context: ServerContext
    ) async throws(Problem) -> AuditNote {
        var note = try await notes.note(action, least, request, context)
        note.account = try accountID(context)
        return note
    }

    /// Records that an administrator reads personal data, before it leaves the server.
    private func recordReading(
        _ action: String,
        of account: Identifier?,
        _ request: Request,
        _ context: ServerContext
    ) async throws(Problem) {
        try await authority.record(notes.noteOfReading(action, account, request, context))
    }

    /// Decodes an amount and its reason, which also goes into the audit log.
    private func gift(
        _ request: Request,
        _ context: ServerContext
    ) async throws(Problem) -> (Submission<SpendRequest>, reason: String) {
        try await gift(
            request,
            context,
            as: SpendRequest.self,
            meaning: \.meaning,
            reason: \.reason
        )
    }

    private func gift<Content: Codable & Sendable>(
        _ request: Request,
        _ context: ServerContext,
        as type: Content.Type,
        meaning: (Content) -> String,
        reason: (Content) -> String
    ) async throws(Problem) -> (Submission<Content>, reason: String) {
        let submission = try await gate.admission.submission(
            gate.wire(request, context),
            as: type,
            meaning: meaning
        )
        let text = (try? submission.content.get()).map(reason) ?? ""
        return (submission, text.isPlainText(of: WireLimits.reasonCharacters) ? text : "")
    }

    private func page(_ wire: HTTPWireRequest) throws(Problem) -> (limit: Int?, cursor: String?) {
        guard let text = wire.query["limit"] else { return (nil, wire.query["cursor"]) }
        guard let limit = Int(text), limit > 0 else {
            throw Problem(.malformedRequest, "Set 'limit' to a whole number, at least 1.")
        }
        return (limit, wire.query["cursor"])
    }

    private func accountID(_ context: ServerContext) throws(Problem) -> Identifier {
        guard let id = context.parameters.get("id").flatMap({ Identifier($0) }) else {
            throw Problem(.notFound, "Use a UUID as the account id in the path.")
        }
        return id
    }
}

extension Administrator {
    /// Returns the note for an entry of the audit log.
    func note(
        _ action: String,
        _ account: Identifier?,
        _ reason: String,
        _ detail: String? = nil
    ) -> AuditNote {
        AuditNote(
            actor: name,
            role: role.rawValue,
            action: action,
            account: account,
            reason: reason,
            detail: detail
        )
    }
}

extension ServerContext {
    /// Returns the administrator of the request.
    ///
    /// - Throws: `unauthenticated`, or `role_missing` if the role permits less.
    func administrator(_ least: AdminRole) throws(Problem) -> Administrator {
        guard let administrator = exchange.administrator else {
            throw Problem(.unauthenticated, "Send 'Authorization: Bearer' with an admin token.")
        }
        try administrator.require(least)
        return administrator
    }
}
