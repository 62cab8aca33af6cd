import Foundation

/// Returns the number in an environment variable, as in `STREAMS=10000 swift test`.
package func environmentNumber<Number: FixedWidthInteger>(
    _ name: String,
    or standard: Number
) -> Number {
    ProcessInfo.processInfo.environment[name].flatMap { Number($0) } ?? standard
}
