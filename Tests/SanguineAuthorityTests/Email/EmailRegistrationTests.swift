import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Registration by e-mail", .bounded)
struct EmailRegistrationTests {
    private let world = EmailWorld()
    private var authority: Authority { world.authority }

    private func verify(_ code: String, _ identity: Identity) async -> Problem? {
        await problem { () throws(Problem) in
            try await authority.verifyUpgrade(CodeRequest(code: code), identity)
        }
    }

    @Test func `a guest registers with the code of the message`() async throws {
        let guest = try await world.guest()
        let started = try await authority.upgrade(
            UpgradeRequest(email: "Ana@Example.org", password: "correct horse"),
            guest,
            from: nil
        )
        #expect(started.verification.sentTo == "a•••@example.org")
        #expect(started.verification.expiresAt == world.clock.now() + .seconds(900))

        let code = try await world.code(to: "ana@example.org")
        let (signedIn, head) = try await authority.verifyUpgrade(CodeRequest(code: code), guest)
        #expect(signedIn.account.id == guest.account)
        #expect(signedIn.account.kind == .registered)
        #expect(signedIn.account.email == "ana@example.org")
        #expect(try await authority.account(guest.account).1 == head)
        #expect(try await authority.account(email: "ana@example.org")?.id == guest.account)
        let session = try await world.identity(of: signedIn)
        #expect(try await world.isLive(session))
        #expect(try await !world.isLive(guest))
    }

    @Test func `a registration ends all sessions of the account`() async throws {
        let first = try await world.guest()
        var others: [Identity] = []
        for _ in 0..<40 { others.append(try await world.guest()) }
        _ = try await world.registered()
        for identity in others + [first] { #expect(try await !world.isLive(identity)) }
    }

    @Test func `the message has the code, its life and no link`() async throws {
        let code = try await world.upgrade(try await world.guest())
        let mail = try #require(try await world.mails(to: "ana@example.org").first)
        #expect(mail.subject == "Your code for Sanguine")
        #expect(mail.text.contains("\(code.prefix(4)) \(code.suffix(4))"))
        #expect(mail.text.contains("It is valid for 15 minutes."))
        #expect(!mail.text.contains("http") && !mail.subject.contains(code))
    }

    @Test func `a code may be typed with a blank or a hyphen`() async throws {
        let guest = try await world.guest()
        let code = try await world.upgrade(guest)
        #expect(await verify("\(code.prefix(4))-\(code.suffix(4)) ", guest) == nil)
    }

    @Test func `the address is not bound before the code is verified`() async throws {
        _ = try await world.upgrade(try await world.guest(1))
        #expect(try await authority.account(email: "ana@example.org") == nil)
        let other = try await world.guest(2)
        let code = try await world.upgrade(other)
        #expect(await verify(code, other) == nil)
    }

    @Test func `a wrong code is refused, and the right one still works`() async throws {
        let guest = try await world.guest()
        let code = try await world.upgrade(guest)
        let refused = await verify(EmailWorld.wrong(code), guest)
        #expect(refused?.code == .verificationFailed && refused?.status == 422)
        #expect(await verify(code, guest) == nil)
    }

    @Test func `after five wrong codes the right one is void`() async throws {
        let guest = try await world.guest()
        let code = try await world.upgrade(guest)
        for _ in 0..<5 {
            #expect(await verify(EmailWorld.wrong(code), guest)?.code == .verificationFailed)
        }
        #expect(await verify(code, guest)?.code == .verificationFailed)
        let another = try await world.upgrade(guest)
        #expect(await verify(another, guest) == nil)
    }

    @Test func `a thousand concurrent wrong codes count as five`() async throws {
        let guest = try await world.guest()
        let code = try await world.upgrade(guest)
        await withTaskGroup(of: Void.self) { tasks in
            for number in 0..<1_000 {
                tasks.addTask { _ = await verify(String(10_000_000 + number), guest) }
            }
        }
        let id = Verification.id(.registration, guest.account.description)
        let stored = try await world.storage.load([Verification.key(id)])
            .document(Verification.self, id)
        #expect(code.hasPrefix("10000") || stored?.wrong == 5)
    }

    @Test func `a text that is no code does not count as a wrong one`() async throws {
        let guest = try await world.guest()
        let code = try await world.upgrade(guest)
        for text in ["", "1234", "123456789", "abcdefgh", String(repeating: "1", count: 9_999)] {
            #expect(await verify(text, guest)?.code == .verificationFailed)
        }
        #expect(await verify(code, guest) == nil)
    }

    @Test func `a code expires`() async throws {
        let guest = try await world.guest()
        let code = try await world.upgrade(guest)
        world.clock.advance(by: .seconds(900))
        #expect(await verify(code, guest)?.code == .verificationFailed)
    }

    @Test func `a second code replaces the first`() async throws {
        let guest = try await world.guest()
        let first = try await world.upgrade(guest)
        world.clock.advance(by: .seconds(1))
        let second = try await world.upgrade(guest, "ana@example.net")
        if first != second { #expect(await verify(first, guest)?.code == .verificationFailed) }
        #expect(await verify(second, guest) == nil)
        #expect(try await authority.account(guest.account).0.email == "ana@example.net")
    }

    @Test func `a code works only in the account that requested it`() async throws {
        let victim = try await world.guest(1)
        let attacker = try await world.guest(2)
        let code = try await world.upgrade(attacker)
        #expect(await verify(code, victim)?.code == .verificationFailed)
        #expect(try await authority.account(victim.account).0.kind == .guest)
    }

    @Test func `of a thousand concurrent verifications of a code one registers`() async throws {
        let guest = try await world.guest()
        let code = try await world.upgrade(guest)
        let outcomes = await withTaskGroup(of: ProblemCode?.self) { tasks in
            for _ in 0..<1_000 { tasks.addTask { await verify(code, guest)?.code } }
            return await tasks.reduce(into: [ProblemCode?]()) { $0.append($1) }
        }
        #expect(outcomes.count { $0 == nil } == 1)
        #expect(outcomes.count { $0 == .verificationFailed } == 999)
        // The profile was changed once: account, grant, registration.
        #expect(try await authority.account(guest.account).1 == 3)
    }

    @Test func `an address that is bound elsewhere is taken`() async throws {
        _ = try await world.registered(1)
        let other = try await world.guest(2)
        let code = try await world.upgrade(other)
        let refused = await verify(code, other)
        #expect(refused?.code == .emailTaken && refused?.status == 409)
        #expect(try await authority.account(other.account).0.kind == .guest)
        #expect(try await world.isLive(other))
    }

    @Test func `only one of two accounts that verify the same address gets it`() async throws {
        var codes: [(Identity, String)] = []
        for number in 1...4 {
            let guest = try await world.guest(number)
            codes.append((guest, try await world.upgrade(guest)))
        }
        let outcomes = await withTaskGroup(of: ProblemCode?.self) { tasks in
            for (guest, code) in codes { tasks.addTask { await verify(code, guest)?.code } }
            return await tasks.reduce(into: [ProblemCode?]()) { $0.append($1) }
        }
        #expect(outcomes.count { $0 == nil } == 1)
        #expect(outcomes.count { $0 == .emailTaken } == 3)
    }

    // The same work for a known address and an unknown one, so that the time tells nothing.
    @Test func `an upgrade hashes and sends once whether or not the address is taken`()
        async throws
    {
        _ = try await world.registered(1)
        let guest = try await world.guest(2)
        for email in ["ana@example.org", "ben@example.org"] {
            let before = world.hashes
            let earlier = try await world.mails(to: email).count
            _ = try await world.upgrade(guest, email)
            #expect(world.hashes == before + 1)
            #expect(try await world.mails(to: email).count == earlier + 1)
        }
    }

    @Test func `a registered account changes its address in another way`() async throws {
        let ana = try await world.registered()
        let refused = await problem { () throws(Problem) in
            try await authority.upgrade(
                UpgradeRequest(email: "ana@example.net", password: "correct horse"),
                ana,
                from: nil
            )
        }
        #expect(refused?.code == .invalidContent)
    }

    @Test(arguments: [("ana", "correct horse"), ("ana@example.org", "short")])
    func `an invalid address or password is refused before it is hashed`(
        email: String,
        password: String
    ) async throws {
        let guest = try await world.guest()
        let refused = await problem { () throws(Problem) in
            try await authority.upgrade(
                UpgradeRequest(email: email, password: password),
                guest,
                from: nil
            )
        }
        #expect(refused?.code == .invalidContent && world.hashes == 0)
    }

    @Test func `an account gets five codes an hour`() async throws {
        let guest = try await world.guest()
        for number in 0..<5 { _ = try await world.upgrade(guest, "a\(number)@example.org") }
        let refused = await problem { () throws(Problem) in
            try await authority.upgrade(
                UpgradeRequest(email: "a5@example.org", password: "correct horse"),
                guest,
                from: nil
            )
        }
        #expect(refused?.code == .rateLimited && refused?.retryAfter == 3_600)
        world.clock.advance(by: .seconds(3_600))
        _ = try await world.upgrade(guest, "a5@example.org")
    }

    @Test func `an address gets five codes an hour from all accounts`() async throws {
        for number in 1...5 { _ = try await world.upgrade(try await world.guest(number)) }
        let guest = try await world.guest(6)
        let refused = await problem { () throws(Problem) in
            try await authority.upgrade(
                UpgradeRequest(email: "ana@example.org", password: "correct horse"),
                guest,
                from: nil
            )
        }
        #expect(refused?.code == .rateLimited)
    }

    @Test func `neither the code nor the password nor the message is stored in clear`()
        async throws
    {
        let guest = try await world.guest()
        let code = try await world.upgrade(guest)
        for kind in DocumentKind.allCases {
            for row in try await world.storage.documents(DocumentQuery(kind, limit: 100)) {
                let text = String(decoding: row.body, as: UTF8.self)
                #expect(!text.contains(code) && !text.contains("correct horse"), "\(kind)")
                if kind != .verification { #expect(!text.contains("ana@"), "\(kind)") }
            }
        }
    }
}
