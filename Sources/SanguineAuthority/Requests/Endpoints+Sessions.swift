import SanguineModel

// `/v1/sessions`.
extension Endpoints {
    var sessions: [Endpoint] {
        [Endpoint("POST", "sessions", signIn)]
    }

    /// Signs in with an e-mail address or an identity token; with a guest's access token, the guest
    /// is merged into the account.
    @Sendable
    private func signIn(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (guest, body) = try await optionalIdentity(request)
        if body.provider != nil {
            // The place of `authority.signIn(provider:…)`, which takes the guest too.
            throw Problem(
                .invalidContent,
                "Send 'email' and 'password': this server has no identity provider."
            )
        }
        let signedIn = try await authority.signIn(body, as: guest, from: request.address)
        return .changed(signedIn, head: nil)
    }

    private func optionalIdentity(
        _ request: any WireRequest
    ) async throws(Problem) -> (Identity?, SessionRequest) {
        guard request.field(.authorization) != nil else {
            return (nil, try await admission.anonymous(request, as: SessionRequest.self))
        }
        let (identity, body) = try await admission.body(request, as: SessionRequest.self)
        return (identity, try body.get())
    }
}
