"""Stages with weights: convolutions, fully connected layers, LSTM."""
