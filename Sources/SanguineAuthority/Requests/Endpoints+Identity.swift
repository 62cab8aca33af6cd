import SanguineModel

// `/v1/accounts/identity`.
extension Endpoints {
    var identities: [Endpoint] { [Endpoint("POST", "accounts/identity", bind)] }

    @Sendable
    private func bind(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        // An idempotency key is not needed: each identity token can be used once.
        let (identity, body) = try await admission.body(request, as: IdentityRequest.self)
        let (signedIn, head) = try await authority.register(
            try body.get(),
            identity,
            key: try admission.optionalKey(request)
        )
        return .changed(signedIn, head: head)
    }
}
