/// Prints a measured figure of an example's requirement together with the one to beat.
///
/// All figures are printed in this form, once each. Ours were counted or measured in this run;
/// theirs were recorded elsewhere, and are not compared.
package func printFigure(_ row: String, ours: String, theirs: String = "no figure") {
    print("\(row): ours \(ours); theirs, as recorded: \(theirs)")
}

extension Duration {
    /// The duration in milliseconds, with two decimals.
    package var milliseconds: String {
        let (seconds, attoseconds) = components
        let hundredths = seconds * 100_000 + attoseconds / 10_000_000_000_000
        let fraction = hundredths % 100
        return "\(hundredths / 100).\(fraction < 10 ? "0" : "")\(fraction) ms"
    }
}
