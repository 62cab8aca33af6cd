import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// A guest that its device left with a code, while another device still has it.
@Suite("Guests that a device left", .bounded)
struct LeftGuestTests {
    private func request(_ number: Int) -> GuestRequest {
        GuestRequest(
            deviceId: "device-number-\(100_000 + number)",
            deviceSecret: Base64URL.encode([UInt8](repeating: UInt8(number), count: 32))
        )
    }

    private func redeem(
        _ number: Int,
        _ owner: SignedIn,
        _ authority: Authority
    ) async throws -> SignedIn {
        let device = request(number)
        let identity = try await authority.tokens.verify(owner.session.accessToken)
        return try await authority.redeemMoveCode(
            RedeemRequest(
                code: try await authority.issueMoveCode(identity, MoveCodeRequest()).code,
                deviceId: device.deviceId,
                deviceSecret: device.deviceSecret
            ),
            from: nil
        )
    }

    /// Two devices of one guest, of which the first one leaves for another account.
    private func left() async throws -> (Authority, stays: SignedIn, account: Identifier) {
        let authority = Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: AuthoritySettings(),
            clock: ManualClock()
        )
        let guest = try await authority.guest(request(1)).signedIn
        let stays = try await redeem(2, guest, authority)
        #expect(stays.account.id == guest.account.id)
        let owner = try await authority.guest(request(3)).signedIn
        let account = owner.account.id
        #expect(try await redeem(1, owner, authority).account.id == account)
        return (authority, stays, account)
    }

    @Test func `a device that becomes a guest while it redeems a code joins the account`()
        async throws
    {
        let storage = InterruptedStorage()
        let authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: AuthoritySettings(),
            clock: ManualClock()
        )
        let owner = try await authority.guest(request(3)).signedIn
        let device = request(1)
        storage.interruptNextLook(at: .device(device.deviceId)) {
            _ = try? await authority.guest(device)
        }
        let joined = try await redeem(1, owner, authority)
        #expect(joined.account.id == owner.account.id)
        #expect(storage.wasInterrupted)
        #expect(try await authority.guest(device).signedIn.account.id == owner.account.id)
    }

    @Test func `its other device signs in to the account`() async throws {
        let (authority, _, account) = try await left()
        let signedIn = try await authority.guest(request(2)).signedIn
        #expect(signedIn.account.id == account)
        let identity = try await authority.tokens.verify(signedIn.session.accessToken)
        #expect(identity.account == account)
    }

    @Test func `its sessions are refused at the next refresh`() async throws {
        let (authority, stays, _) = try await left()
        let refusal = await #expect(throws: Problem.self) {
            try await authority.refresh(RefreshRequest(refreshToken: stays.session.refreshToken))
        }
        #expect(refusal?.code == .sessionEnded)
    }

    @Test func `its other device becomes a new guest after the account was deleted`() async throws {
        let (authority, _, account) = try await left()
        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        _ = try await authority.deleteAccount(account, by: note)
        let outcome = try await authority.guest(request(2))
        #expect(outcome.isNew && outcome.signedIn.account.id != account)
    }

    @Test func `it has no balance, and refuses what a merged guest refuses`() async throws {
        let (authority, stays, account) = try await left()
        let guest = stays.account.id
        let submission = Submission(
            key: "key",
            fingerprint: Fingerprint("key"),
            content: .success(SpendRequest(amount: 1, reason: "support"))
        )
        let refusals = [
            await problem { () throws(Problem) in
                try await authority.setPlan(.premium, of: guest).0.id
            },
            await problem { () throws(Problem) in try await authority.grant(guest, submission) },
            await problem { () throws(Problem) in try await authority.debit(guest, submission) },
            await problem { () throws(Problem) in try await authority.balance(guest) },
        ]
        #expect(refusals.map { $0?.code } == [ProblemCode?](repeating: .notFound, count: 4))
        #expect(try await authority.balance(account).available == 100)
        #expect(try await authority.storage.verifyLedger().differences.isEmpty)
    }
}
