extension String {
    /// The reason of an error, followed by advice about it.
    ///
    /// A reason that ends with a full stop contains its own advice and stays as it is.
    func advising(_ advice: String) -> String { hasSuffix(".") ? self : "\(self). \(advice)" }
}
