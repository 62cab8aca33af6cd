import Foundation

/// Returns the number in an environment variable, as in `STREAMS=10000 swift test`.
package func environmentNumber<Number: FixedWidthInteger>(
    _ name: String,
    or standard: Number
) -> Number {
    ProcessInfo.processInfo.environment[name].flatMap { Number($0) } ?? standard
}

extension Duration {
    /// The duration for a server's own timeout, which `SANGUINE_TEST_PATIENCE` multiplies as it
    /// does all waits.
    package var withPatience: Duration {
        self * max(1, environmentNumber("SANGUINE_TEST_PATIENCE", or: 1))
    }
}
