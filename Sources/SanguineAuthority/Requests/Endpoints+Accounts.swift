import SanguineModel

// `/v1/accounts`, `/v1/sessions` and `/v1/account`.
extension Endpoints {
    var accounts: [Endpoint] {
        [
            Endpoint("POST", "accounts/guest", guest),
            Endpoint("POST", "sessions/refresh", refresh),
            Endpoint("DELETE", "sessions/current", signOut),
            Endpoint("GET", "account", account),
            Endpoint("PATCH", "account", patch),
        ]
    }

    @Sendable
    private func guest(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let body = try await admission.anonymous(request, as: GuestRequest.self)
        // An attestation has three signatures, an assertion one.
        if body.attestation != nil { request.charge(ProcessorTime.signature * 3) }
        if body.assertion != nil { request.charge(ProcessorTime.signature) }
        let outcome = try await authority.guest(body, from: request.address)
        return .changed(
            outcome.signedIn,
            status: outcome.isNew ? 201 : 200,
            head: outcome.head
        )
    }

    @Sendable
    private func refresh(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let body = try await admission.anonymous(request, as: RefreshRequest.self)
        if body.assertion != nil { request.charge(ProcessorTime.signature) }
        return .changed(Refreshed(session: try await authority.refresh(body)), head: nil)
    }

    @Sendable
    private func signOut(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        try await authority.signOut(try await admission.read(request))
        return WireResponse(status: 204)
    }

    @Sendable
    private func account(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        return .read(try await authority.account(identity.account).0, to: request)
    }

    @Sendable
    private func patch(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(request, as: [String: JSONValue].self)
        let patch = JSONValue.object(try body.get())
        let (account, head) = try await authority.patchAccount(identity.account, patch)
        return .changed(account, head: head)
    }
}
