import Foundation
import ReadingsApp
import ReadingsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Support, on the port for administration.
@Suite("Support of Readings", .bounded(.seconds(60)))
struct SupportTests {
    @Test func `support finds a guest by device and gives a reading and tokens back`()
        async throws
    {
        try await ReadingsWorld.with { world in
            let client = try world.client()
            let screen = await world.screen(client)
            for _ in 1...3 { try await screen.readWhole(world.photo) }
            #expect(await screen.quota?.remaining == 0)

            let account = try await world.account(ofDevice: world.deviceID())
            #expect(account.id == client.accountId && account.kind == .guest)
            let unit = try await world.administer(
                "POST",
                "accounts/\(account.id)/quotas/readings",
                #"{"amount":1,"reason":"the photo was upside down"}"#
            )
            #expect(unit.status == 200)
            let tokens = try await world.administer(
                "POST",
                "accounts/\(account.id)/grants",
                #"{"amount":5,"reason":"an apology"}"#
            )
            #expect(tokens.status == 200)
            try await screen.refresh()
            let left = try #require(await screen.quota?.remaining)
            let balance = try await client.refresh(.balance).available
            #expect(left == 1 && balance == 105)
            try await screen.readWhole(world.photo)
            let seen = try await world.overview(of: account.id)
            #expect(seen.quotas.first { $0.name == ReadPhoto.quota }?.used == 3)
            #expect(seen.ledger.contains { $0.reason.contains("an apology") })
            let page = try await world.guests()
            #expect(page == [account.id])
            printFigure(
                "G9",
                ours: """
                    found by device, \(left) unit and \(balance - 100) tokens given back, \
                    \(seen.quotas.count) quota and \(seen.ledger.count) ledger entries shown, \
                    \(page.count) of 1 guests listed
                    """
            )
            client.close()
        }
    }
}

/// An account as support sees it.
private struct Overview: Decodable {
    struct Entry: Decodable { let reason: String }

    let quotas: [Quota]
    let ledger: [Entry]
}

extension ReadingsWorld {
    fileprivate func overview(of account: Identifier) async throws -> Overview {
        let answer = try await administer("GET", "accounts/\(account)")
        return try JSONDecoder().decode(Overview.self, from: answer.body)
    }

    /// Returns the ids of all guests, as support lists them.
    fileprivate func guests() async throws -> [Identifier] {
        let kind = URLQueryItem(name: "kind", value: "guest")
        let answer = try await administer("GET", "accounts", query: [kind])
        struct Guest: Decodable { let id: Identifier }
        struct Page: Decodable { let items: [Guest] }
        return try JSONDecoder().decode(Page.self, from: answer.body).items.map(\.id)
    }
}
