/// Prints the figure of a row of what an example must do, beside the one to beat.
///
/// All rows print in this form, and each once. What is ours was counted or measured in this run;
/// what is theirs was recorded elsewhere, and is not compared.
package func printFigure(_ row: String, ours: String, theirs: String = "no figure") {
    print("\(row): ours \(ours); theirs, as recorded: \(theirs)")
}

extension Duration {
    /// Milliseconds, with two digits.
    package var milliseconds: String {
        let (seconds, attoseconds) = components
        let hundredths = seconds * 100_000 + attoseconds / 10_000_000_000_000
        let fraction = hundredths % 100
        return "\(hundredths / 100).\(fraction < 10 ? "0" : "")\(fraction) ms"
    }
}
