import SanguineModel

// `/v1/sessions`, the codes that move a guest, and the rights of the person.
extension Endpoints {
    var rights: [Endpoint] {
        [
            Endpoint("GET", "sessions", listSessions),
            Endpoint("DELETE", "sessions", endSessions),
            Endpoint("DELETE", "sessions/:id", endSession),
            Endpoint("POST", "sessions/codes", issueMoveCode),
            Endpoint("POST", "sessions/codes/redeem", redeemMoveCode),
            Endpoint("DELETE", "account", deleteAccount),
            Endpoint("GET", "account/export", exportAccount),
            Endpoint("GET", "account/logins", listLogins),
            Endpoint("DELETE", "account/logins/:id", removeLogin),
        ]
    }

    @Sendable
    private func listSessions(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        let sessions = try await authority.sessions(
            of: identity.account,
            current: identity.session
        )
        return .read(sessions, to: request)
    }

    @Sendable
    private func endSessions(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        let keepsCurrent: Bool
        switch request.query["keepCurrent"] {
        case nil, "false": keepsCurrent = false
        case "true": keepsCurrent = true
        default:
            throw Problem(.malformedRequest, "Set 'keepCurrent' to true or false.")
        }
        try await authority.endSessions(
            of: identity.account,
            except: keepsCurrent ? identity.session : nil
        )
        return WireResponse(status: 204)
    }

    @Sendable
    private func endSession(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        guard let id = request.parameter("id").flatMap({ Identifier($0) }) else {
            throw .noSession
        }
        try await authority.endSession(id, of: identity.account)
        return WireResponse(status: 204)
    }

    @Sendable
    private func issueMoveCode(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(request, as: MoveCodeRequest.self)
        return .changed(
            try await authority.issueMoveCode(identity, try body.get()),
            status: 201,
            head: nil
        )
    }

    @Sendable
    private func redeemMoveCode(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let body = try await admission.anonymous(request, as: RedeemRequest.self)
        return .changed(
            try await authority.redeemMoveCode(body, from: request.address),
            head: nil
        )
    }

    @Sendable
    private func deleteAccount(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(request, as: DeletionRequest.self)
        var (status, head) = try await authority.deleteAccount(identity, try body.get())
        // A small account is mostly removed at once; the rest is the server's periodic work, which
        // also repeats a step that fails here.
        if (try? await calls.remove(identity.account, limit: Self.removalSteps)) != nil {
            status = (try? await authority.removalStatus(identity.account)) ?? status
        }
        return .changed(RemovalAnswer(removal: status), head: head)
    }

    /// The number of steps that the request for a deletion performs.
    private static let removalSteps = 16

    @Sendable
    private func listLogins(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        return .read(try await authority.logins(of: identity.account), to: request)
    }

    @Sendable
    private func removeLogin(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(request, as: LoginRemoval.self)
        let (logins, head) = try await authority.removeLogin(
            request.parameter("id") ?? "",
            identity,
            try body.get()
        )
        return .changed(logins, head: head)
    }

    @Sendable
    private func exportAccount(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        return try await authority.exportAccount(identity.account)
    }
}
