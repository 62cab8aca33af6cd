import Foundation
import HostileUpstream
import Sanguine
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// The upstream's invoice and the server's ledger, after streams that were cut for every
    /// reason.
    ///
    /// `STREAMS=10000` plays more streams, and `SEED=7` plays others.
    @Suite("Invoices and charges", .bounded(.seconds(1_800)))
    struct InvoiceTests {
        private static let streams = environmentNumber("STREAMS", or: 300)
        private static let seed: UInt64 = environmentNumber("SEED", or: 20_262)

        /// The sums of the invoices and of the charges.
        private struct Sum: CustomStringConvertible {
            var streams = 0
            var charged: Int64 = 0
            var invoiced: Int64 = 0

            var description: String {
                "charged \(charged) of \(invoiced) invoiced (\(streams) streams)"
            }

            mutating func add(_ charge: Int64, _ bill: Int64) {
                streams += 1
                charged += charge
                invoiced += bill
            }
        }

        /// A complete stream costs exactly what the upstream bills for it.
        ///
        /// An interrupted stream costs at most as much. The difference is at most the price of the
        /// words in transit.
        @Test func `charges and invoices differ by at most the words in transit at a cut`()
            async throws
        {
            let (streams, seed) = (Self.streams, Self.seed)
            let plans = (0..<streams).map { InvoicePlan($0, seed: seed) }
            try await HostileUpstream.with({ request in
                let number = Int(request.id.drop { $0 != "-" }.dropFirst())
                return number.map { plans[$0].fault } ?? .none
            }) { upstream in
                let game = InvoiceGame(upstream: upstream)
                try await TemporaryFolder.with { folder in
                    let played = try await game.play(plans, folder)
                    let found = try await game.find(played, folder)
                    Self.compare(found, upstream.invoice, seed)
                    let verified = try await Tool.run("ledger", "verify", "--data", folder.path)
                    #expect(verified.status == 0, "seed \(seed): \(verified.output)")
                }
            }
        }

        private static func compare(
            _ found: [InvoiceGame.Found],
            _ invoice: [String: HostileUpstream.Bill],
            _ seed: UInt64
        ) {
            var (drained, cut, stopped) = (Sum(), Sum(), Sum())
            var largest: Int64 = 0
            for stream in found {
                let plan = stream.played.plan
                let bill = invoice[plan.id] ?? .init()
                let (charge, billed) = (stream.end.charged, Int64(bill.completionTokens))
                let isWhole = plan.isWhole(hasTime: stream.played.hasTime)
                let bound = Int64(isWhole ? 0 : InvoicePlan.ahead)
                let about: Comment = "seed \(seed), \(plan): \(charge) of \(billed)"
                #expect(charge <= Int64(InvoicePlan.longest), about)
                #expect(charge <= billed, about)
                #expect(billed - charge <= bound, about)
                #expect(charge >= Int64(stream.played.parts), about)
                #expect(bill.requests <= 1, about)
                largest = max(largest, billed - charge)
                if !plan.isDrained {
                    stopped.add(charge, billed)
                } else if isWhole {
                    drained.add(charge, billed)
                } else {
                    cut.add(charge, billed)
                }
            }
            #expect(drained.charged == drained.invoiced, "seed \(seed)")
            print(
                """
                invoices (seed \(seed)): drain \(drained), where cut short \(cut); stop \
                \(stopped); largest difference of a stream \(largest)
                """
            )
        }
    }
}
