/// Advice on failures of a run: which setting of the server to change.
///
/// The settings protect a server from what a load test does. Change them for the test only.
enum LoadAdvice {
    /// Returns what to do about a reason of failures, or `nil` if nothing is known.
    static func advice(step: String, reason: String) -> String? {
        switch (step, reason) {
        case ("guest", "429 rate_limited"):
            """
            One address may create 'limits.guestsPerHour' guests (1000). Start the server with \
            SANGUINE_LIMITS_GUESTS_PER_HOUR=0, and raise 'limits.addressRequestsPerMinute' if the \
            rate exceeds it.
            """
        case ("guest", "403 attestation_failed"):
            "Start the server without 'attestation.guests: required'."
        case ("live", "429 rate_limited"):
            "Raise 'limits.liveConnectionsPerAccount'."
        case ("live", "503 overloaded"):
            "Raise 'limits.liveConnections' (10000) and 'limits.connections' (20000)."
        case (_, "429 rate_limited"):
            "Raise 'limits.requestsPerMinute'."
        case (_, "503 overloaded"):
            """
            The server refused work that it could not do in time, or a budget such as \
            'limits.answerBytes' was used up. Its log has the reason.
            """
        case (_, "503 upstream_missing"):
            "Start the server with '--upstream', or set '--function echo'."
        case (_, "402 insufficient_tokens"):
            "Raise 'accounts.grant', or let users ask less often."
        case (_, "404 not_found"), (_, "refused not_found"):
            "Set '--collection', '--likes' and '--function' to names that the server declares."
        case (_, "422 storage_full"), (_, "refused storage_full"):
            "Raise 'limits.accountBytes'."
        case (_, "connection refused"):
            "Check that the server runs at '--server'."
        case (_, "no free port"):
            """
            This machine has no free port for more connections. Widen \
            net.ipv4.ip_local_port_range, or lower '--users'.
            """
        case (_, "too many open files"):
            "Run 'ulimit -n' with a higher number first."
        case (_, "connection reset"), (_, "connection timed out"):
            """
            The server did not accept the connection. Raise 'limits.connections', of which one \
            address gets half, and its limit of open files.
            """
        case ("live", "ended by the server"):
            "The server's log says why. It ends a connection with its token, and when it stops."
        default:
            nil
        }
    }
}
