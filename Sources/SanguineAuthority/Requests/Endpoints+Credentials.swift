import SanguineModel

// E-mail addresses and passwords: `/v1/accounts/upgrade`, `/v1/accounts/password` and
// `/v1/account/email`.
extension Endpoints {
    var credentials: [Endpoint] {
        [
            Endpoint("POST", "accounts/upgrade", upgrade),
            Endpoint("POST", "accounts/verify", verifyUpgrade),
            Endpoint("POST", "accounts/password/reset", requestReset),
            Endpoint("POST", "accounts/password/reset/verify", verifyReset),
            Endpoint("PUT", "account/password", changePassword),
            Endpoint("POST", "account/email", changeEmail),
            Endpoint("POST", "account/email/verify", verifyEmail),
        ]
    }

    @Sendable
    private func upgrade(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(request, as: UpgradeRequest.self)
        let started = try await authority.upgrade(
            try body.get(),
            identity,
            from: request.address
        )
        return .changed(started, status: 202, head: nil)
    }

    @Sendable
    private func verifyUpgrade(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(request, as: CodeRequest.self)
        let (signedIn, head) = try await authority.verifyUpgrade(try body.get(), identity)
        return .changed(signedIn, head: head)
    }

    @Sendable
    private func requestReset(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let body = try await admission.anonymous(request, as: PasswordResetRequest.self)
        let started = try await authority.requestPasswordReset(body, from: request.address)
        return .changed(started, status: 202, head: nil)
    }

    @Sendable
    private func verifyReset(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let body = try await admission.anonymous(request, as: PasswordResetVerification.self)
        let (signedIn, head) = try await authority.verifyPasswordReset(
            body,
            from: request.address
        )
        return .changed(signedIn, head: head)
    }

    @Sendable
    private func changePassword(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(request, as: PasswordChange.self)
        let (signedIn, head) = try await authority.changePassword(
            try body.get(),
            identity,
            from: request.address
        )
        return .changed(signedIn, head: head)
    }

    @Sendable
    private func changeEmail(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(request, as: EmailChange.self)
        let started = try await authority.changeEmail(
            try body.get(),
            identity,
            from: request.address
        )
        return .changed(started, status: 202, head: nil)
    }

    @Sendable
    private func verifyEmail(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, body) = try await admission.body(request, as: CodeRequest.self)
        let (signedIn, head) = try await authority.verifyEmailChange(try body.get(), identity)
        return .changed(signedIn, head: head)
    }
}
