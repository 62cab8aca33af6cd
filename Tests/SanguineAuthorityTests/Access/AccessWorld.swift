import SanguineModel

@testable import SanguineAuthority

/// The devices of persons, who register with e-mail addresses.
struct AccessWorld: Sendable {
    let email: EmailWorld
    var authority: Authority { email.authority }
    var clock: ManualClock { email.clock }

    init(_ change: (inout AuthoritySettings) -> Void = { _ in }) { email = EmailWorld(change) }

    /// The credentials of a device.
    func device(_ number: Int) -> GuestRequest {
        GuestRequest(
            deviceId: "device-0123456789-\(number)",
            deviceSecret: Base64URL.encode([UInt8](repeating: UInt8(number), count: 32))
        )
    }

    /// Signs a device in with its secret.
    func open(_ number: Int) async throws(Problem) -> GuestOutcome {
        try await authority.guest(device(number))
    }

    /// The account that the secret of the device opens, and whether it was created for that.
    func account(of number: Int) async throws -> (id: Identifier, isNew: Bool) {
        let outcome = try await open(number)
        return (outcome.signedIn.account.id, outcome.isNew)
    }

    func available(_ account: Identifier) async throws -> Int64 {
        try await authority.balance(account).available
    }

    /// Adds a device to the caller's account.
    func join(_ number: Int, _ owner: Identity) async throws -> Identity {
        let code = try await authority.issueMoveCode(owner, MoveCodeRequest()).code
        return try await email.identity(of: try await redeem(code, number))
    }

    func redeem(_ code: String, _ number: Int) async throws(Problem) -> SignedIn {
        let device = device(number)
        return try await authority.redeemMoveCode(
            RedeemRequest(
                code: code,
                deviceId: device.deviceId,
                deviceSecret: device.deviceSecret
            ),
            from: nil
        )
    }

    /// Sets another password with a code of an e-mail.
    func reset() async throws {
        let address = "ana@example.org"
        let earlier = try await email.mails(to: address)
        let request = PasswordResetRequest(email: address)
        _ = try await authority.requestPasswordReset(request, from: nil)
        let code = try await email.code(to: address, after: earlier)
        let reset = PasswordResetVerification(
            email: address,
            code: code,
            password: "battery staple"
        )
        _ = try await authority.verifyPasswordReset(reset, from: nil)
    }
}

/// A way to end all access to an account.
enum EndOfAccess: String, CaseIterable, Sendable {
    case registration, reset, everywhere

    /// Ends the access to the account of the caller, who is registered except for a registration.
    func perform(_ world: AccessWorld, _ caller: Identity) async throws {
        switch self {
        case .registration:
            let name = Login.Name.identity(provider: "example", subject: "ana")
            _ = try await world.authority.register(name, email: nil, caller)
        case .reset: try await world.reset()
        case .everywhere: try await world.authority.endSessions(of: caller.account)
        }
    }
}
