import Foundation
import ReadingsApp
import ReadingsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Guests who register or sign in.
@Suite("Identity of Readings", .bounded(.seconds(120)))
struct IdentityTests {
    private static let email = "defne@example.org"
    private static let password = "a password of Defne"

    @Test func `a guest and a registered user send the same requests`() async throws {
        try await ReadingsWorld.with { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = await world.screen(client)
            try await screen.readWhole(world.photo)
            try await client.synchronize()
            let guest = Self.actions(network.take().requests)
            try await Self.register(client, world)
            #expect(client.account.current.kind == .registered)

            _ = network.take()
            try await screen.readWhole(world.photo, .coffee)
            try await client.synchronize()
            let registered = Self.actions(network.take().requests)
            // Read once, until the feed has brought the account.
            #expect(guest.subtracting(["GET /v1/account"]) == registered)
            #expect(guest.contains("POST /v1/functions/reading"))
            printFigure(
                "G3",
                ours: """
                    \(guest.intersection(registered).count) of \(guest.union(registered).count) \
                    kinds of requests are the same
                    """
            )
            client.close()
        }
    }

    @Test func `registering keeps everything, and a sign-in merges the guest in one step`()
        async throws
    {
        try await ReadingsWorld.with { world in
            let phone = try world.client()
            let screen = await world.screen(phone)
            for kind in [ReadingKind.palm, .face] { try await screen.readWhole(world.photo, kind) }
            try await phone.synchronize()
            let guest = try #require(phone.accountId)
            let history = await screen.history
            try await Self.register(phone, world)
            try await screen.refresh()
            #expect(phone.accountId == guest)
            #expect(phone.account.current.email == Self.email)
            #expect(await screen.history == history)
            #expect(await screen.quota?.used == 2)
            #expect(try await phone.refresh(.balance).available == 100)

            // Another device, whose guest has data, too.
            let network = RecordedNetwork()
            let tablet = try world.client("tablet") { $0.transport = network }
            let other = await world.screen(tablet, "tablet")
            world.clock.advance(by: .seconds(60))
            try await other.readWhole(world.photo, .coffee, .greek)
            try await tablet.synchronize()
            let identity = await IdentityScreen(tablet)
            try await identity.prepareSignIn(email: Self.email, password: Self.password)
            let preview = try #require(await identity.offer?.preview)
            #expect(preview.records == 1 && preview.tokens.moved == 100)
            #expect(preview.quotas.first { $0.name == ReadPhoto.quota }?.used == 2)
            _ = network.take()
            try await identity.confirmSignIn()
            let steps = network.take().requests.count { $0.hasPrefix("POST /v1/accounts/") }
            try await other.refresh()
            #expect(tablet.accountId == guest)
            #expect(await other.history.map(\.kind).first == .coffee)
            #expect(await other.history.count == 3)
            #expect(await other.quota?.used == 2)
            #expect(try await tablet.refresh(.balance).available == 200)
            try await screen.refresh()
            let merged = await screen.history.count
            #expect(merged == 3)
            // The guest's device belongs to the account.
            #expect(try await world.account(ofDevice: world.deviceID("tablet")).id == guest)
            printFigure(
                "G6",
                ours: """
                    \(history.count) of \(history.count) readings kept by the registration, \
                    \(merged) of 3 after the sign-in, in \(steps) step
                    """
            )
            phone.close()
            tablet.close()
        }
    }

    @Test func `a sign-in is refused if the guest has changed since its preview`() async throws {
        try await ReadingsWorld.with { world in
            let phone = try world.client()
            try await Self.register(phone, world)
            let tablet = try world.client("tablet")
            let screen = await world.screen(tablet, "tablet")
            let identity = await IdentityScreen(tablet)
            try await identity.prepareSignIn(email: Self.email, password: Self.password)
            try await screen.readWhole(world.photo)
            try await tablet.synchronize()
            let error = await #expect(throws: SanguineError.self) {
                try await identity.confirmSignIn()
            }
            #expect(error?.code == ProblemCode.mergeStale.rawValue)
            #expect(await screen.history.count == 1)

            try await identity.prepareSignIn(email: Self.email, password: Self.password)
            #expect(await identity.offer?.preview.records == 1)
            try await identity.confirmSignIn()
            #expect(tablet.accountId == phone.accountId)
            phone.close()
            tablet.close()
        }
    }

    @Test func `a reading in progress during the sign-in is in the account's history`()
        async throws
    {
        try await ReadingsWorld.with { world in
            let phone = try world.client()
            try await Self.register(phone, world)
            let tablet = try world.client("tablet")
            let screen = await world.screen(tablet, "tablet")
            let answer = try await screen.read(world.photo, .palm, .indian)
            try await tablet.signIn(email: Self.email, password: Self.password)
            let text = try await Task { try await answer.finished() }.finished("the reading").output
            try await screen.settled()
            try await tablet.synchronize()
            let first = await world.screen(phone)
            try await first.refresh()
            #expect(await first.history.map(\.text) == [text])
            #expect(await first.quota?.used == 1)
            phone.close()
            tablet.close()
        }
    }

    @Test func `a guest moves to a second device without a registration`() async throws {
        try await ReadingsWorld.with { world in
            let phone = try world.client()
            let first = await world.screen(phone)
            try await first.readWhole(world.photo)
            try await phone.synchronize()
            let shown = try await IdentityScreen(phone).codeForOtherDevice()
            let tablet = try world.client("tablet")
            let second = await world.screen(tablet, "tablet")
            try await IdentityScreen(tablet).join(code: shown.code)
            try await second.refresh()
            #expect(tablet.accountId == phone.accountId)
            #expect(tablet.account.current.kind == .guest)
            #expect(await second.history == first.history)
            #expect(await second.quota?.used == 1)

            // The code is valid once.
            let other = try world.client("other")
            let error = await #expect(throws: SanguineError.self) {
                try await IdentityScreen(other).join(code: shown.code)
            }
            #expect(error?.code == ProblemCode.moveCodeInvalid.rawValue)
            for client in [phone, tablet, other] { client.close() }
        }
    }

    @Test func `a wrong code does not register the guest`() async throws {
        try await ReadingsWorld.with { world in
            let client = try world.client()
            let identity = await IdentityScreen(client)
            try await identity.register(email: Self.email, password: Self.password)
            let code = try await world.code()
            let wrong = String(code.map { $0 == "9" ? "0" : "9" })
            let error = await #expect(throws: SanguineError.self) {
                try await identity.verify(wrong)
            }
            #expect(error?.code == ProblemCode.verificationFailed.rawValue)
            #expect(client.account.current.kind == .guest)
            try await identity.verify(code)
            #expect(client.account.current.kind == .registered)
            #expect(await identity.verification == nil)
            client.close()
        }
    }

    /// Registers the device's guest by e-mail.
    private static func register(_ client: SanguineClient, _ world: ReadingsWorld) async throws {
        let identity = await IdentityScreen(client)
        try await identity.register(email: email, password: password)
        #expect(await identity.verification?.sentTo.contains("@example.org") == true)
        try await identity.verify(world.code())
    }

    /// The requests of the user's actions, without those of the feed.
    private static func actions(_ requests: [String]) -> Set<String> {
        let feed = ["GET /v1/live", "GET /v1/sync/pull", "POST /v1/accounts/guest"]
        return Set(requests).subtracting(feed)
    }
}
