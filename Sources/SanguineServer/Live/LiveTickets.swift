import Crypto
import Foundation
import SanguineAuthority
import SanguineModel
import Synchronization

/// Tickets for live connections of clients that cannot send an `Authorization` header.
///
/// A ticket consists of 32 random bytes, of which only a hash is stored, so that a lookup takes the
/// same time whether it exists or not. It grants no more than the access token that requested it.
///
/// Invariants: a ticket can be used once; there are at most ``LiveLimits/tickets``, of which an
/// address gets half.
///
/// Mutable state: `guarded`, protected by its mutex.
final class LiveTickets: Sendable {
    private struct Ticket {
        let pass: AccessPass
        let expiresAt: Duration
        /// Released with the ticket.
        let permit: SharedPool.Permit
    }

    private struct Guarded {
        var tickets: [SHA256.Digest: Ticket] = [:]
        var byAccount: [Identifier: [SHA256.Digest]] = [:]
        /// The earliest time of the next search for expired tickets, which is slow if many exist.
        var nextSweep = Duration.zero

        mutating func remove(_ hash: SHA256.Digest) -> Ticket? {
            guard let ticket = tickets.removeValue(forKey: hash) else { return nil }
            let account = ticket.pass.identity.account
            byAccount[account]?.removeAll { $0 == hash }
            if byAccount[account]?.isEmpty == true { byAccount[account] = nil }
            return ticket
        }
    }

    private let guarded = Mutex(Guarded())
    private let uptime: @Sendable () -> Duration
    private let permits = SharedPool(limit: LiveLimits.tickets)

    /// Creates an empty list.
    ///
    /// - Parameter clock: A monotonic clock; tickets are only valid in this process.
    init(clock: any Clock<Duration>) { uptime = Stopwatch(clock).elapsed }

    /// Creates a ticket for an access pass.
    ///
    /// - Throws: `overloaded` if there are too many tickets.
    func issue(for pass: AccessPass, to address: String) throws(Problem) -> LiveTicket {
        let now = uptime()
        let text = Self.randomText()
        let hash = Self.hash(text)
        let account = pass.identity.account
        makeRoom(for: account, now)
        do throws(SharedPool.Refusal) {
            let permit = try permits.acquire(address: address)
            let expiry = now + LiveLimits.ticketLife
            guarded.withLock { guarded in
                guarded.tickets[hash] = Ticket(pass: pass, expiresAt: expiry, permit: permit)
                guarded.byAccount[account, default: []].append(hash)
            }
        } catch {
            throw Problem(
                .overloaded,
                "Too many tickets are in use. Request one again after 'Retry-After'.",
                retryAfter: LiveLimits.ticketLife.secondsRoundedUp
            )
        }
        return LiveTicket(ticket: text, expiresIn: LiveLimits.ticketLife.secondsRoundedUp)
    }

    /// Removes the account's oldest ticket if it has the maximum, and all expired tickets if there
    /// are many.
    private func makeRoom(for account: Identifier, _ now: Duration) {
        // The removed tickets release their permits outside the lock.
        var removed: [Ticket?] = []
        let isCrowded = permits.count >= LiveLimits.tickets / 2
        guarded.withLock { guarded in
            if isCrowded, now >= guarded.nextSweep {
                guarded.nextSweep = now + .seconds(1)
                for (hash, ticket) in guarded.tickets where ticket.expiresAt <= now {
                    removed.append(guarded.remove(hash))
                }
            }
            if let own = guarded.byAccount[account], own.count >= LiveLimits.ticketsPerAccount {
                removed.append(guarded.remove(own[0]))
            }
        }
        withExtendedLifetime(removed) {}
    }

    /// Redeems a ticket, which cannot be used again.
    ///
    /// - Throws: `unauthenticated` if the ticket does not exist or has expired.
    func redeem(_ text: String) throws(Problem) -> AccessPass {
        let hash = Self.hash(text)
        let ticket = guarded.withLock { $0.remove(hash) }
        guard let ticket, ticket.expiresAt > uptime() else {
            throw Problem(
                .unauthenticated,
                "Request a new ticket with POST /v1/live/tickets: each is valid for one connection."
            )
        }
        return ticket.pass
    }

    private static func randomText() -> String {
        var random = SystemRandomNumberGenerator()
        let bytes = (0..<4).flatMap { _ in
            withUnsafeBytes(of: random.next() as UInt64) { Array($0) }
        }
        return Data(bytes).base64EncodedString()
            .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    private static func hash(_ text: String) -> SHA256.Digest { SHA256.hash(data: Data(text.utf8)) }
}
