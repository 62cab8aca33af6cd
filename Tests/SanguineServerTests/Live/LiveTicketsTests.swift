import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Tickets for live connections", .bounded)
struct LiveTicketsTests {
    private let clock = ManualClock()
    private let tickets: LiveTickets

    init() { tickets = LiveTickets(clock: clock) }

    private func pass(_ account: Identifier = Identifier.new()) -> AccessPass {
        AccessPass(
            identity: Identity(account: account, session: Identifier.new()),
            expiresAt: ManualWallClock().now() + .seconds(900)
        )
    }

    @Test func `a ticket is valid once, for the account that requested it`() throws {
        let pass = pass()
        let ticket = try tickets.issue(for: pass, to: "a")
        #expect(ticket.expiresIn == 60)
        #expect(ticket.ticket.count == 43)
        #expect(try tickets.redeem(ticket.ticket) == pass)
        let refusal = #expect(throws: Problem.self) { try tickets.redeem(ticket.ticket) }
        #expect(refusal?.code == .unauthenticated)
    }

    @Test func `a ticket is valid for a minute`() throws {
        let (first, second) = (
            try tickets.issue(for: pass(), to: "a"), try tickets.issue(for: pass(), to: "a")
        )
        clock.advance(by: .seconds(59))
        #expect(throws: Never.self) { try tickets.redeem(first.ticket) }
        clock.advance(by: .seconds(1))
        let refusal = #expect(throws: Problem.self) { try tickets.redeem(second.ticket) }
        #expect(refusal?.code == .unauthenticated)
    }

    @Test func `an account with too many tickets loses the oldest`() throws {
        let pass = pass()
        let all = try (0...LiveLimits.ticketsPerAccount).map { _ in
            try tickets.issue(for: pass, to: "a")
        }
        let refusal = #expect(throws: Problem.self) { try tickets.redeem(all[0].ticket) }
        #expect(refusal?.code == .unauthenticated)
        #expect(throws: Never.self) { try tickets.redeem(all[1].ticket) }
    }

    @Test func `the number of tickets is limited until some have expired`() throws {
        for number in 0..<LiveLimits.tickets {
            _ = try tickets.issue(for: pass(), to: "\(number % 2)")
        }
        let refusal = #expect(throws: Problem.self) { try tickets.issue(for: pass(), to: "b") }
        #expect(refusal?.code == .overloaded)
        #expect(refusal?.retryAfter == 60)
        clock.advance(by: .seconds(60))
        #expect(throws: Never.self) { try tickets.issue(for: pass(), to: "a") }
    }

    @Test func `an address with many accounts leaves half of the tickets to others`() throws {
        for _ in 0..<LiveLimits.tickets / 2 { _ = try tickets.issue(for: pass(), to: "a") }
        let refusal = #expect(throws: Problem.self) { try tickets.issue(for: pass(), to: "a") }
        #expect(refusal?.code == .overloaded)
        #expect(throws: Never.self) { try tickets.issue(for: pass(), to: "b") }
    }
}
