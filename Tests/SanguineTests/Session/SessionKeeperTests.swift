import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Session keeper", .bounded)
struct SessionKeeperTests {
    typealias Fixture = ClientFixture

    let fixture = Fixture()
    var authority: StagedAuthority { fixture.authority }

    @Test func `a thousand simultaneous first calls create one guest`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        let session = client.session
        authority.stop(Fixture.guestPath, at: .answer)
        let tokens = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<1_000 { group.addTask { try await session.accessToken() } }
            try await authority.reached(Fixture.guestPath, at: .answer)
            try await eventually("1,000 callers wait") { session.waiting == 1_000 }
            try await authority.release(Fixture.guestPath, at: .answer)
            return try await group.reduce(into: [String: Int]()) { $0[$1, default: 0] += 1 }
        }
        #expect(Array(tokens.values) == [1_000])
        #expect(authority.count(Fixture.guestPath) == 1)
    }

    @Test func `a hundred simultaneous rejections cause one refresh`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        let session = client.session
        let old = try await session.accessToken()
        authority.expireTokens()
        authority.stop(Fixture.refreshPath, at: .answer)
        let tokens = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<100 { group.addTask { try await session.rejected(old) } }
            try await eventually("100 callers wait") { session.waiting == 100 }
            try await authority.release(Fixture.refreshPath, at: .answer)
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(tokens.count == 1 && !tokens.contains(old))
        #expect(authority.count(Fixture.refreshPath) == 1)
        #expect(try await session.rejected(old) == tokens.first)
        #expect(authority.count(Fixture.refreshPath) == 1)
    }

    @Test func `an expired token is refreshed within the request that it failed`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.expireTokens()
        #expect(try await client.refresh(.balance).available == 100)
        #expect(authority.count(Fixture.refreshPath) == 1)
        #expect(authority.count(Fixture.guestPath) == 1)
    }

    @Test func `a refresh whose answer is lost is resent with the same token`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        let session = client.session
        let old = try await session.accessToken()
        authority.expireTokens()
        authority.stop(Fixture.refreshPath, at: .answer)
        async let token = session.rejected(old)
        try await authority.reached(Fixture.refreshPath, at: .answer)
        authority.open(Fixture.refreshPath, at: .answer)
        try await authority.release(Fixture.refreshPath, at: .answer, losing: .interrupted("lost"))
        #expect(try await token != old)
        let bodies = try authority.requests(Fixture.refreshPath).map {
            try WireCoding.decode(RefreshRequest.self, from: $0.body ?? Data()).refreshToken
        }
        #expect(bodies.count == 2 && Set(bodies).count == 1)
        #expect(authority.count(Fixture.guestPath) == 1)
    }

    @Test func `a failed early refresh keeps the token that is still valid`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        let session = client.session
        let first = try await session.accessToken()
        fixture.clock.advance(by: .seconds(880))
        for _ in 0..<3 { authority.refuse(Fixture.refreshPath, Problem(.overloaded, "Later.")) }
        #expect(try await session.accessToken() == first)
        #expect(authority.count(Fixture.refreshPath) == 3)
        fixture.clock.advance(by: .seconds(30))
        #expect(try await session.accessToken() != first)
        #expect(authority.count(Fixture.refreshPath) == 4)
    }

    @Test func `an ended session is silently renewed and the cache is kept`() async throws {
        let client = try await fixture.clientWithBalance()
        let account = client.accountId
        authority.expireTokens()
        authority.refuse(Fixture.refreshPath, Problem(.refreshReused, "Sign in."))
        _ = try await client.refresh(.balance)
        #expect(client.accountId == account)
        #expect(authority.count(Fixture.guestPath) == 2)
    }

    @Test func `a process killed while it creates an account returns to that account`()
        async throws
    {
        try await Fixture.withFolder { folder in
            authority.stop(Fixture.guestPath, at: .answer)
            let first = try fixture.client(folder: folder)
            let caller = Task { try await first.session.accessToken() }
            try await authority.reached(Fixture.guestPath, at: .answer)
            // The server has created the account; the process never receives the answer.
            authority.open(Fixture.guestPath, at: .answer)
            first.close()
            await #expect(throws: SanguineError.closed) { try await caller.finished() }

            let second = try fixture.client(folder: folder)
            _ = try await second.session.accessToken()
            #expect(Array(authority.devices.values) == [try #require(second.accountId)])
        }
    }

    @Test func `a restart needs no request to continue`() async throws {
        try await Fixture.withFolder { folder in
            let first = try fixture.client(folder: folder)
            let token = try await first.session.accessToken()
            first.close()
            let second = try fixture.client(folder: folder)
            #expect(second.accountId == first.accountId)
            #expect(try await second.session.accessToken() == token)
            #expect(authority.count(Fixture.guestPath) == 1)
        }
    }

    @Test func `a cancelled first caller leaves the request to the other callers`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        let session = client.session
        authority.stop(Fixture.guestPath, at: .answer)
        let leader = Task { try await session.accessToken() }
        try await authority.reached(Fixture.guestPath, at: .answer)
        let follower = Task { try await session.accessToken() }
        try await eventually("2 callers wait") { session.waiting == 2 }
        leader.cancel()
        await #expect(throws: SanguineError.cancelled) { try await leader.finished() }
        try await authority.release(Fixture.guestPath, at: .answer)
        #expect(try await follower.finished() == session.accessToken())
        #expect(authority.count(Fixture.guestPath) == 1)
    }

    @Test func `an error reaches all waiting callers, and the next caller tries again`()
        async throws
    {
        let client = try fixture.client()
        defer { client.close() }
        let session = client.session
        authority.stop(Fixture.guestPath, at: .request)
        authority.refuse(Fixture.guestPath, Problem(.deviceSecretMismatch, "Use another id."))
        let callers = (0..<10).map { _ in Task { try await session.accessToken() } }
        try await eventually("10 callers wait") { session.waiting == 10 }
        try await authority.reached(Fixture.guestPath, at: .request)
        authority.open(Fixture.guestPath, at: .request)
        try await authority.release(Fixture.guestPath, at: .request)
        for caller in callers {
            await #expect(
                throws: SanguineError.problem(Problem(.deviceSecretMismatch, "Use another id."))
            ) {
                try await caller.finished()
            }
        }
        #expect(try await !session.accessToken().isEmpty)
        #expect(authority.count(Fixture.guestPath) == 2)
    }

    @Test func `a sign-out removes the user at once and overtakes a refresh in flight`()
        async throws
    {
        try await Fixture.withFolder { folder in
            let client = try await fixture.clientWithBalance(folder: folder)
            let old = try await client.session.accessToken()
            authority.stop(Fixture.refreshPath, at: .answer)
            let refresher = Task { try await client.session.rejected(old) }
            try await authority.reached(Fixture.refreshPath, at: .answer)
            await client.signOut()
            #expect(client.accountId == nil)
            #expect(client.cached(.balance) == nil)
            await #expect(throws: SanguineError.userChanged) { try await refresher.finished() }
            #expect(authority.requests("/v1/sessions/current").map(\.method) == ["DELETE"])
            #expect(try client.users.current.store.state(SessionKeeper.stateName) == nil)

            client.close()
            let next = try fixture.client(folder: folder)
            #expect(next.accountId == nil && next.cached(.balance) == nil)
        }
    }

    @Test func `after a sign-out the device is the same guest again`() async throws {
        let client = try await fixture.clientWithBalance()
        let account = client.accountId
        await client.signOut()
        #expect(try await client.value(of: .balance).available == 100)
        #expect(client.accountId == account)
        #expect(authority.devices.count == 1)
    }

    @Test func `requests begun before a sign-out do not sign in after it`() async throws {
        let delay = ManualClock()
        let client = try fixture.client { $0.delay = delay }
        defer { client.close() }
        let token = try await client.session.accessToken()
        let old = client.users.current
        authority.refuse(Fixture.balancePath, Problem(.internalFault, "Later."))
        authority.refuse(Fixture.askPath, Problem(.internalFault, "Later."))
        let fetch = Task { try await client.refresh(.balance) }
        let call = Task { try await client.call(Ask(question: "why?")) }
        try await delay.waitForSleepers(2)
        await client.signOut()
        await #expect(throws: SanguineError.userChanged) { try await fetch.finished() }
        delay.advance(by: .seconds(60))
        await #expect(throws: SanguineError.userChanged) { try await call.finished() }
        await #expect(throws: SanguineError.userChanged) {
            try await old.cacheScope.attempts.backend.call.get("/v1/balance", as: Balance.self)
        }
        await #expect(throws: SanguineError.userChanged) {
            try await old.session.rejected(token)
        }
        #expect(authority.count(Fixture.guestPath) == 1)
        #expect(client.accountId == nil)
    }

    @Test func `a sign-out that the disk refuses is still effective after a restart`()
        async throws
    {
        try await Fixture.withFolder { folder in
            let first = try await fixture.clientWithBalance(folder: folder)
            // The next user's folder cannot be named because a folder occupies the file's path.
            try FileManager.default.createDirectory(
                at: folder.appending(path: "present/something"),
                withIntermediateDirectories: true
            )
            await first.signOut()
            #expect(first.accountId == nil && first.cached(.balance) == nil)
            #expect(first.storeReport.failure != nil)
            first.close()

            let second = try fixture.client(folder: folder)
            #expect(second.accountId == nil && second.cached(.balance) == nil)
            second.close()
        }
    }

    @Test func `a released client releases its caches`() async throws {
        weak var queries: QueryCache?
        weak var balance: BalanceKeeper?
        weak var session: SessionKeeper?
        try {
            let client = try fixture.client()
            (queries, balance, session) = (client.queries, client.balance, client.session)
            #expect(queries != nil && balance != nil && session != nil)
        }()
        #expect(queries == nil && balance == nil && session == nil)
    }

    @Test func `a sign-out that never reaches the server is still effective`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.refuse("/v1/sessions/current", Problem(.overloaded, "Later."))
        await client.signOut()
        #expect(client.accountId == nil)
        #expect(authority.count("/v1/sessions/current") == 1)
    }
}

@Suite("Device identity", .bounded)
struct DeviceIdentityTests {
    @Test func `an identity is a UUID and 32 bytes in base64url`() throws {
        let identity = DeviceIdentity.random()
        #expect(Identifier(identity.deviceId) != nil)
        #expect(WireLimits.deviceIdCharacters.contains(identity.deviceId.count))
        #expect(identity.deviceSecret.count == 43)
        let alphabet = /[A-Za-z0-9_-]+/
        #expect(identity.deviceSecret.wholeMatch(of: alphabet) != nil)
        #expect(identity != .random())
    }

    @Test func `the file is readable only by its owner, and reads back`() async throws {
        try await ClientFixture.withFolder { folder in
            let identity = try FileIdentityVault(folder: folder).identity()
            #expect(try FileIdentityVault(folder: folder).identity() == identity)
            let path = folder.appending(path: "device-identity.json").path()
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path()).count == 1)
        }
    }

    @Test func `concurrent creators all get the same identity`() async throws {
        try await ClientFixture.withFolder { folder in
            let identities = try await withThrowingTaskGroup(of: DeviceIdentity.self) { group in
                for _ in 0..<32 {
                    group.addTask { try FileIdentityVault(folder: folder).identity() }
                }
                return try await group.reduce(into: Set<DeviceIdentity>()) { $0.insert($1) }
            }
            #expect(identities.count == 1)
        }
    }

    @Test func `an unreadable file is set aside, not overwritten`() async throws {
        try await ClientFixture.withFolder { folder in
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let file = folder.appending(path: "device-identity.json")
            try Data("nonsense".utf8).write(to: file)
            let identity = try FileIdentityVault(folder: folder).identity()
            #expect(try FileIdentityVault(folder: folder).identity() == identity)
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path())
            #expect(names.count == 2 && names.contains { $0.contains("unreadable") })
        }
    }

    @Test func `a lost identity is reported and logged`() async throws {
        let fixture = ClientFixture()
        try await ClientFixture.withFolder { folder in
            let first = try await fixture.clientWithBalance(folder: folder)
            await first.signOut()
            first.close()
            let file = folder.appending(path: "device-identity.json")
            try Data("nonsense".utf8).write(to: file)
            let log = RecordedLog()
            let second = try fixture.client(folder: folder) { $0.logger = log.logger }
            defer { second.close() }
            _ = try await second.value(of: .balance)

            #expect(fixture.authority.devices.count == 2)
            let aside = try #require(second.storeReport.movedAside.first)
            #expect(aside.lastPathComponent.contains("unreadable"))
            #expect(second.storeReport.failure?.contains("identity") == true)
            #expect(log.messages.contains { $0.contains("moved aside") })
        }
    }
}
