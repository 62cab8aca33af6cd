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
        let (guest, body) = try await guest(request)
        let signedIn: SignedIn
        if let identity = try body.identity {
            signedIn = try await authority.signIn(
                provider: identity.provider,
                identityToken: identity.identityToken,
                nonce: identity.nonce,
                as: guest,
                key: try admission.optionalKey(request),
                refreshToken: body.refreshToken
            )
        } else {
            signedIn = try await authority.signIn(body, as: guest, from: request.address)
        }
        return .changed(signedIn, head: nil)
    }

    private func guest(
        _ request: any WireRequest
    ) async throws(Problem) -> (Identity?, SessionRequest) {
        guard request.field(.authorization) != nil else {
            return (nil, try await admission.anonymous(request, as: SessionRequest.self))
        }
        let (identity, body) = try await admission.merging(request, as: SessionRequest.self)
        return (identity, try body.get())
    }
}
