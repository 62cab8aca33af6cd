import Foundation
import ReadingsApp
import ReadingsModel
import Sanguine
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// Guests of devices.
@Suite("Guests of Readings", .bounded(.seconds(120)))
struct GuestTests {
    @Test func `a thousand concurrent first calls of a device create one account`() async throws {
        try await ReadingsWorld.with { world in
            let guest = GuestRequest(
                deviceId: "the-one-and-only-device",
                deviceSecret: String(repeating: "A", count: 43),
                timeZone: "Europe/Istanbul"
            )
            let request = TransportRequest(
                method: "POST",
                url: world.server.appending(path: "v1/accounts/guest"),
                headers: ["Content-Type": "application/json"],
                body: try JSONEncoder().encode(guest)
            )
            let networks = (0..<20).map { _ in URLSessionTransport.patient }
            let start = ContinuousClock.now
            let answers = try await concurrently(1_000) { number in
                try await networks[number % networks.count].send(request)
            }
            let time = start.duration(to: .now)
            let statuses = Dictionary(grouping: answers, by: \.status).mapValues(\.count)
            #expect(statuses == [201: 1, 200: 999])
            let accounts = Set(
                try answers.map {
                    try JSONDecoder().decode(SignedIn.self, from: $0.body).account.id
                }
            )
            let found = try await world.account(ofDevice: guest.deviceId)
            #expect(accounts == [found.id])
            let errors = answers.count { $0.status >= 400 }
            printFigure(
                "G1",
                ours: """
                    \(answers.count) concurrent first calls, \(accounts.count) account, \(errors) \
                    errors, in \(time.milliseconds)
                    """,
                theirs: "1,000 concurrent first calls, 1 account, 0 errors"
            )
            for network in networks { network.close() }
        }
    }

    @Test func `a device finds its account again after every restart`() async throws {
        try await ReadingsWorld.with { world in
            var accounts: Set<Identifier> = []
            let starts = 10
            for _ in 0..<starts {
                let client = try world.client()
                accounts.insert(try await client.value(of: .account).id)
                client.close()
            }
            #expect(accounts.count == 1)
            let file = world.identity("phone").url.path
            let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions]
            #expect(mode as? Int == 0o600)
            printFigure("G2", ours: "\(accounts.count) account after \(starts) starts")
        }
    }

    @Test func `a first launch offline is usable at once and registers when the network returns`()
        async throws
    {
        try await ReadingsWorld.with { world in
            let (network, connectivity) = (RecordedNetwork(), ManualConnectivity(isOnline: false))
            network.disconnect()
            let client = try world.client {
                ($0.transport, $0.connectivity, $0.retries) = (network, connectivity, false)
            }
            let (screen, account, time) = await MainActor.run {
                let start = ContinuousClock.now
                let screens = (world.screen(client), AccountScreen(client))
                return (screens.0, screens.1, start.duration(to: .now))
            }
            #expect(await screen.history.isEmpty)
            #expect(await account.isGuest && client.accountId == nil)
            try await account.setLanguage("el")
            try await account.finishOnboarding()
            #expect(await account.language == "el")
            #expect(await account.settings.hasOnboarded)
            // The photo is kept until there is a network.
            await #expect(throws: SanguineError.self) {
                try await screen.read(world.photo, .coffee, .greek)
            }
            #expect(await screen.chosen?.kind == .coffee)

            network.connect()
            connectivity.connect()
            await screen.resume()
            try await eventually("the reading") {
                await screen.history.first?.text?.isEmpty == false
            }
            try await client.synchronize()
            let found = try await world.account(ofDevice: world.deviceID())
            #expect(found.id == client.accountId && found.language == "el")
            #expect(found.settings["hasOnboarded"] == true)
            printFigure(
                "G7",
                ours: """
                    usable \(time.milliseconds) after the start, \
                    \(await screen.history.count) reading after the network's return
                    """
            )
            client.close()
        }
    }

    @Test(arguments: [RecordedNetwork.Loss.request, .response])
    func `an app that ends during the creation of its account gets the same account later`(
        _ loss: RecordedNetwork.Loss
    ) async throws {
        try await ReadingsWorld.with { world in
            let network = RecordedNetwork()
            network.lose(loss, of: "/v1/accounts/guest")
            let former = try world.client {
                $0.transport = network
                $0.retries = false
            }
            await #expect(throws: SanguineError.self) { try await former.value(of: .account) }
            former.close()

            // Whether or not the server has created it already.
            let before = try? await world.account(ofDevice: world.deviceID())
            #expect((before != nil) == (loss == .response))
            let client = try world.client()
            let account = try await client.value(of: .account)
            #expect(before == nil || before?.id == account.id)
            #expect(try await world.account(ofDevice: world.deviceID()).id == account.id)
            #expect(try await client.value(of: .balance).available == 100)
            client.close()
        }
    }
}
