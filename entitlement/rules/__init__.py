"""Rules as people write them: patterns, forms, hints, previews, explanations, import and export, history."""
