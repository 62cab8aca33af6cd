import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Reinstalls of an app whose device has joined another account with a code.
@Suite("App transactions after a move", .bounded)
struct MovedAppTransactionTests {
    fileprivate static let device = "5C4B2A10-0000-4000-8000-000000000001"

    /// A device with an app transaction, whose guest it leaves for the guest of another device.
    private struct Moved {
        let world: PurchaseWorld
        let app: String
        let left: Identifier
        let account: SignedIn

        init() async throws {
            world = try PurchaseWorld()
            app = try world.store.appTransaction(
                "a1",
                device: MovedAppTransactionTests.device,
                nonce: "N"
            )
            left = try await world.guest(1, app: app, device: MovedAppTransactionTests.device)
                .signedIn.account.id
            account = try await world.guest(2).signedIn
            try await redeem(1, account.account.id)
        }

        func redeem(_ number: Int, _ account: Identifier) async throws {
            let secret = (0..<32).map { UInt8(truncatingIfNeeded: number >> ($0 % 4 * 8)) }
            let authority = world.authority
            let session = try await authority.signIn(account).signedIn.session
            let owner = try await authority.tokens.verify(session.accessToken)
            let signedIn = try await authority.redeemMoveCode(
                RedeemRequest(
                    code: try await authority.issueMoveCode(owner, MoveCodeRequest()).code,
                    deviceId: "device-number-\(100_000 + number)",
                    deviceSecret: Base64URL.encode(secret)
                ),
                from: nil
            )
            #expect(signedIn.account.id == account)
        }

        func reinstall(_ number: Int) async throws -> GuestOutcome {
            try await world.guest(number, app: app, device: MovedAppTransactionTests.device)
        }
    }

    @Test func `a reinstall finds the account that the device has joined`() async throws {
        let moved = try await Moved()
        let found = try await moved.reinstall(3)
        #expect(!found.isNew && found.signedIn.account.id == moved.account.account.id)
        #expect(try await moved.reinstall(4).signedIn.account.id == moved.account.account.id)
    }

    @Test func `a reinstall finds the last of several accounts`() async throws {
        let moved = try await Moved()
        let next = try await moved.world.account(9)
        try await moved.redeem(2, next)
        try await moved.redeem(1, next)
        #expect(try await moved.reinstall(3).signedIn.account.id == next)
    }

    @Test func `the joined account is not entered after it was registered`() async throws {
        let moved = try await Moved()
        let token = moved.account.session.accessToken
        let identity = try await moved.world.authority.tokens.verify(token)
        let email = "ana@example.org"
        _ = try await moved.world.authority.register(.email(email), email: email, identity)
        let found = try await moved.reinstall(3)
        #expect(found.isNew && found.signedIn.account.id != moved.account.account.id)
        #expect(try await moved.world.available(found.signedIn.account.id) == 0)
    }

    @Test func `a device of a guest that was left twice signs in to the last account`()
        async throws
    {
        let moved = try await Moved()
        try await moved.redeem(5, moved.account.account.id)
        let next = try await moved.world.account(9)
        try await moved.redeem(2, next)
        // Device 5 still belongs to the account that device 2 has left.
        #expect(try await moved.world.guest(5).signedIn.account.id == next)
        let last = try await moved.world.account(10)
        try await moved.redeem(9, last)
        #expect(try await moved.world.guest(5).signedIn.account.id == last)
    }
}
